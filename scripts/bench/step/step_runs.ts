/** Decode steps of the same rows inside the engine, in its worker, and over HTTP. */
import { type BenchServer, timeStream } from "../../../src/cli/bench/stream_client.ts";
import { requestBody } from "../../../src/cli/bench/workload.ts";
import { EngineCore } from "../../../src/engine/engine_core.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { GenerateRequest } from "../../../src/engine/messages.ts";
import type { LoadedModel } from "../../../src/models/loaded_model.ts";
import { type Mode, promptOf, samplingOf } from "../spec_workload.ts";
import type { TimedBackend } from "./timed_backend.ts";

export interface StepCase {
  readonly numRows: number;
  readonly mode: Mode;
  /** Of each row. */
  readonly numTokens: number;
}

/** Milliseconds of each step in which all rows decode. */
export interface CoreSteps {
  readonly coreMs: readonly number[];
  readonly launchMs: readonly number[];
  readonly backendMs: readonly number[];
  readonly sampleMs: readonly number[];
}

export const LIMITS = { maxBatch: 16, maxContext: 1024, maxQueue: 64, prefillChunk: 256 };

/** The rows of a case, with the tokens that the model's own template makes. @throws {Error} for a model without tokenizer or template. */
export function requestsOf({ tokenizer, chatTemplate }: LoadedModel, { numRows, mode, numTokens }: StepCase): GenerateRequest[] {
  if (tokenizer === null || chatTemplate === null) {
    throw new Error("The model has no tokenizer or no chat template, the benchmark needs both");
  }
  return Array.from({ length: numRows }, (_, row) => {
    const messages = [{ role: "user", content: promptOf("story", row) }];
    const promptIds = Int32Array.from(
      tokenizer.encode(chatTemplate.render(messages, { addGenerationPrompt: true }), { parseSpecial: true }),
    );
    return { id: `r${row}`, promptIds, sampling: samplingOf(mode, row), maxTokens: numTokens, stopIds: [], promptLogprobs: -1 };
  });
}

/** @throws {Error} when a row fails. */
export function runCore(backend: TimedBackend, requests: readonly GenerateRequest[]): CoreSteps {
  const core = new EngineCore(backend, LIMITS);
  for (const request of requests) core.submit(request);
  const steps = { coreMs: [] as number[], launchMs: [] as number[], backendMs: [] as number[], sampleMs: [] as number[] };
  while (core.hasWork) {
    backend.last.forwardMs = 0;
    const startMs = performance.now();
    const { failures, numPromptTokens, numGeneratedTokens } = core.step(true);
    const stepMs = performance.now() - startMs;
    if (failures[0] !== undefined) throw new Error(failures[0].message);
    // The last step launches none after it.
    if (numPromptTokens > 0 || numGeneratedTokens < requests.length || backend.last.forwardMs === 0) continue;
    steps.coreMs.push(stepMs - backend.last.extraMs);
    steps.launchMs.push(backend.last.launchMs);
    steps.backendMs.push(backend.last.forwardMs + backend.last.sampleMs);
    steps.sampleMs.push(backend.last.sampleMs);
  }
  core.releaseMemory();
  return steps;
}

/** Milliseconds between the messages of steps in which all rows decode. */
export async function runWorker(engine: Engine, requests: readonly GenerateRequest[]): Promise<number[]> {
  const times: number[] = [];
  let [lastMs, numGenerated] = [NaN, engine.stats.generatedTokens];
  const stop = engine.onStep(({ generatedTokens }) => {
    const nowMs = performance.now();
    const isWhole = generatedTokens - numGenerated === requests.length;
    if (isWhole && Number.isFinite(lastMs)) times.push(nowMs - lastMs);
    [lastMs, numGenerated] = [isWhole ? nowMs : NaN, generatedTokens];
  });
  try {
    await Promise.all(requests.map((request) => drain(engine, request)));
  } finally {
    stop();
  }
  return times;
}

async function drain(engine: Engine, request: GenerateRequest): Promise<void> {
  for await (const { finishReason } of engine.generate(request)) if (finishReason !== null) return;
}

/** Milliseconds between the pieces of text of each row, from when all rows have their first one until the first row ends. */
export async function runServed(server: BenchServer, { numRows, mode, numTokens }: StepCase): Promise<number[]> {
  const streams = Array.from({ length: numRows }, async (_, row) => {
    const startMs = performance.now();
    const messages = [{ role: "user", content: promptOf("story", row) }];
    const { arrivalsMs } = await timeStream(server, { ...requestBody(mode, row, numTokens), messages });
    return arrivalsMs.map((ms) => startMs + ms);
  });
  const rows = await Promise.all(streams);
  const beginMs = Math.max(...rows.map((times) => times[0]!));
  const endMs = Math.min(...rows.map((times) => times.at(-1)!));
  return rows.flatMap((times) => {
    const common = times.filter((ms) => ms >= beginMs && ms <= endMs);
    return common.slice(1).map((ms, i) => ms - common[i]!);
  });
}
