import { assertEquals } from "@std/assert";
import { EngineError, type Updates } from "../../src/engine/engine.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { GREEDY } from "../../src/engine/sampling.ts";
import { UpdateQueue } from "../../src/engine/update_queue.ts";
import { Generation } from "../../src/server/generation.ts";
import { ByteTokenizer, FakeEngine } from "./fakes.ts";

/** An engine whose queues the test fills. */
class OpenEngine extends FakeEngine {
  readonly queues: UpdateQueue[] = [];

  override generate(): Updates {
    const queue = new UpdateQueue(() => {});
    this.queues.push(queue);
    return queue;
  }

  /** Gives `id` to every queue, as a step does. */
  tellAll(id: number, finishReason: "stop" | null = null): void {
    for (const queue of this.queues) queue.push({ id: "x", tokens: [id], logprobs: [], finishReason });
  }
}

function start(engine: FakeEngine, numChoices: number): Generation {
  const request: GenerateRequest = {
    id: "x",
    promptIds: Int32Array.of(1),
    sampling: GREEDY,
    maxTokens: 9,
    stopIds: [],
    promptLogprobs: -1,
  };
  const sequences = Array.from({ length: numChoices }, () => ({ request, stop: [], isContinuation: true }));
  return new Generation(engine, sequences, { tokenizer: new ByteTokenizer(), nowMs: () => performance.now(), onEnd: () => {} });
}

Deno.test("what a step brings is told after the step, once for each generation, whatever the number of its choices", async () => {
  const engine = new OpenEngine();
  const generations = [start(engine, 3), start(engine, 1)];
  const told = [0, 0];
  generations.forEach((generation, i) => generation.onNews(() => told[i]!++));
  await Promise.resolve();
  engine.tellAll(97);
  assertEquals(told, [0, 0]);
  await Promise.resolve();
  assertEquals(told, [1, 1]);
  engine.tellAll(98);
  await Promise.resolve();
  assertEquals(told, [2, 2]);
  assertEquals(generations.map((generation) => generation.take().map(({ index, text }) => `${index} ${text}`)), [
    ["0 ab", "1 ab", "2 ab"],
    ["0 ab"],
  ]);
});

Deno.test("an engine that fails a request at once fails it after the generation is there, with what it has brought", async () => {
  const engine = new OpenEngine();
  engine.generate = (): Updates => {
    const queue = new UpdateQueue(() => {});
    queue.push({ id: "x", tokens: [97], logprobs: [], finishReason: null });
    queue.fail(new EngineError("queue_full", "full"));
    return queue;
  };
  const generation = start(engine, 1);
  assertEquals([generation.failure, generation.isEnded], [null, false]);
  await generation.ended;
  assertEquals((generation.failure?.error as EngineError).code, "queue_full");
  assertEquals(generation.take().map(({ text }) => text), ["a"]);
});
