/** Every draw of a row's life is made with that row's own configuration, whatever joins, leaves, ends or moves around it. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { CoreLimits } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import { packSampling } from "../../src/engine/sampling_batch.ts";
import type { SampleCall } from "../../src/native/step_output.ts";
import { EDIT_WORDS, SAMPLING_FIELD as FIELD, SAMPLING_WORDS, StructArray } from "../../src/native/structs.ts";
import { FakeBackend } from "./fake_backend.ts";
import { FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { runPlan } from "./planned_run.ts";
import { CoreRun, finishOf, request, samplings, solo, tokensOf } from "./requests.ts";

const MASK_WORDS = Math.ceil(FAKE_VOCAB_SIZE / 32);
/** The first prompt token of request i is this + i: the cache itself says whose row a slot holds. */
const FIRST_OWNER = 100;

/** One logits row of a step as the sampler was asked to draw it. */
interface Draw {
  readonly owner: number;
  /** What packing leaves of a configuration, position included. */
  readonly words: readonly number[];
  readonly bias: ReadonlyMap<number, number>;
  readonly allowed: readonly number[] | null;
}

class RecordingBackend extends FakeBackend {
  readonly draws: Draw[][] = [];
  /** Steps that asked for nothing but the best token of each row, which is all that the native sampler then looks for. */
  readonly isBare: boolean[] = [];

  override sample(call: SampleCall): void {
    const slots = this.forwards.at(-1)?.flatMap(({ slot, outputs }) => Array<number>(outputs).fill(slot)) ?? [];
    this.draws.push(slots.map((slot, row) => this.#drawOf(call, row, slot)));
    const temperatures = slots.map((_, row) => call.rows.float32[row * SAMPLING_WORDS + FIELD.temperature]);
    const numTops = slots.map((_, row) => call.rows.int32[row * SAMPLING_WORDS + FIELD.numTopLogprobs]);
    const asksForMore = call.numEdits > 0 || call.numMasks > 0 || call.hasAlternatives || numTops.some((numTop) => numTop !== -1);
    this.isBare.push(!asksForMore && temperatures.every((temperature) => temperature === 0));
    super.sample(call);
  }

  #drawOf(call: SampleCall, row: number, slot: number): Draw {
    const at = row * SAMPLING_WORDS;
    const [begin = 0, end = 0, mask = -1] = call.rows.int32.subarray(at + FIELD.editsBegin, at + SAMPLING_WORDS);
    const bias = new Map<number, number>();
    for (let i = begin; i < end; i++) bias.set(call.edits.int32[i * EDIT_WORDS] ?? -1, call.edits.float32[i * EDIT_WORDS + 1] ?? NaN);
    return {
      owner: (this.slots[slot]?.[0] ?? NaN) - FIRST_OWNER,
      words: [...call.rows.uint32.subarray(at, at + FIELD.editsBegin)],
      bias,
      allowed: mask < 0 ? null : bitsOf(call.masks.subarray(mask * MASK_WORDS, (mask + 1) * MASK_WORDS)),
    };
  }
}

function bitsOf(mask: Uint32Array): number[] {
  return Array.from({ length: 32 * mask.length }, (_, id) => id).filter((id) => ((mask[id >>> 5] ?? 0) >>> (id & 31)) & 1);
}

/**
 * Checks every recorded draw against the request that the cache names as its owner.
 * @param cancelled a row that has left while a forward went on with it is drawn in the cheapest way: nobody looks.
 */
function assertOwnDraws(
  draws: readonly (readonly Draw[])[],
  requests: readonly GenerateRequest[],
  cancelled: (owner: number) => boolean = () => false,
): void {
  const unwanted = new StructArray(SAMPLING_WORDS, 1);
  packSampling(unwanted, 0, GREEDY);
  const isUnwanted = (words: readonly number[]): boolean => words.every((word, i) => word === unwanted.uint32[i]);
  const numDrawn = new Map<number, number>();
  const expected = new StructArray(SAMPLING_WORDS, 1);
  for (const [step, rows] of draws.entries()) {
    for (const { owner, words, bias, allowed } of rows) {
      if (cancelled(owner) && isUnwanted(words)) continue;
      const { sampling } = requests[owner] as GenerateRequest;
      const position = numDrawn.get(owner) ?? 0;
      numDrawn.set(owner, position + 1);
      packSampling(expected, 0, sampling);
      expected.uint32[FIELD.position] = position;
      const where = `step ${step}, request ${owner}, draw ${position}`;
      assertEquals(words, [...expected.uint32.subarray(0, FIELD.editsBegin)], where);
      assertEquals(allowed, sampling.allowedTokenIds, where);
      assertEquals(new Map([...bias].filter(([token]) => sampling.logitBias.has(token))), sampling.logitBias, where);
      if (sampling.logitBias.size === 0) assertEquals(bias.size, 0, where);
    }
  }
}

/** Request i; `promptLength` counts the token that names it. */
function owned(i: number, promptLength: number, overrides: Parameters<typeof request>[1] = {}): GenerateRequest {
  return request(`r${i}`, { promptIds: [FIRST_OWNER + i, ...Array.from({ length: promptLength - 1 }, (_, k) => k % 20)], ...overrides });
}

function recordedRun(limits: Partial<CoreLimits> = {}): { readonly backend: RecordingBackend; readonly run: CoreRun } {
  const backend = new RecordingBackend();
  return { backend, run: CoreRun.with(backend, limits) };
}

/** A configuration that differs from all others in every word, with a bias and a mask in some. */
function distinct(i: number): Partial<SamplingConfig> {
  return {
    temperature: 0.5 + i,
    topK: 10 + i,
    topP: 1 - 0.01 * (i + 1),
    minP: 0.01 * (i + 1),
    seed: (BigInt(i) << 32n) | BigInt(7 * i + 1),
    numTopLogprobs: i % 3 - 1,
    ...(i % 2 === 0 ? { logitBias: new Map([[30 + i, i + 1]]) } : {}),
    ...(i % 3 === 1 ? { allowedTokenIds: [i, 40 + i, 200] } : {}),
  };
}

Deno.test("configurations stay with their rows through a group prefill, first tokens, a cancel and finishes in the middle of a step", () => {
  const { backend, run } = recordedRun({ maxBatch: 5, prefillChunk: 12 });
  const lengths = [3, 4, 5, 9, 2, 30, 6];
  const requests = lengths.map((length, i) => owned(i, length, { maxTokens: i === 1 ? 2 : 5 + i, sampling: distinct(i) }));
  run.submit(...requests.slice(0, 5));
  run.step();
  // The chunk of 12 took three prompts whole: three first tokens, each by its own configuration.
  assertEquals(backend.draws[0]?.map(({ owner }) => owner), [0, 1, 4]);
  run.step();
  // Request 1 finishes in this step, so the last row moves into its slot; then request 0 is cancelled, and two more take the free rows.
  run.core.cancel("r0");
  run.submit(...requests.slice(5));
  run.finish();
  assertOwnDraws(backend.draws, requests);
  assert(backend.numMoves >= 2, `${backend.numMoves} rows moved`);
  assertEquals(requests.map(({ id }) => finishOf(run.answers.get(id))), ["cancelled", ...Array(6).fill("length")]);
  for (const one of requests.slice(1)) assertEquals(run.tokens(one.id), tokensOf(solo(one)), one.id);
});

Deno.test("configurations stay with their rows through any series of joins, cancels and finishes", () => {
  const bodies = fc.array(
    fc.record({
      sampling: samplings.map(({ logitBias: _bias, badWords: _words, ...rest }) => ({
        ...rest,
        minTokens: 0,
        dryMultiplier: 0,
        repetitionPenalty: 1,
        frequencyPenalty: 0,
        presencePenalty: 0,
      })),
      promptLength: fc.integer({ min: 1, max: 30 }),
      maxTokens: fc.integer({ min: 1, max: 9 }),
      stepsBefore: fc.nat(3),
      cancelAfter: fc.option(fc.nat(5), { freq: 3 }),
    }, { noNullPrototype: true }),
    { minLength: 2, maxLength: 12 },
  );
  fc.assert(
    fc.property(bodies, fc.integer({ min: 1, max: 5 }), fc.integer({ min: 3, max: 20 }), (list, maxBatch, prefillChunk) => {
      const { backend, run } = recordedRun({ maxBatch, prefillChunk });
      const requests = list.map(({ promptLength, maxTokens, sampling }, i) => owned(i, promptLength, { maxTokens, sampling }));
      runPlan(run, list, requests);
      assertOwnDraws(backend.draws, requests, (owner) => list[owner]?.cancelAfter !== null);
    }),
    { numRuns: 100 },
  );
});

Deno.test("the check above is about something: a neighbour's configuration at a draw is found", () => {
  const { backend, run } = recordedRun();
  const requests = [owned(0, 2, { sampling: { topK: 3 } }), owned(1, 2, { sampling: { topK: 4 } })];
  run.submit(...requests).finish();
  assertOwnDraws(backend.draws, requests);
  const swapped = backend.draws.map((rows) => rows.map((draw) => ({ ...draw, owner: 1 - draw.owner })));
  let message = "";
  try {
    assertOwnDraws(swapped, requests);
  } catch (error) {
    message = (error as Error).message;
  }
  assert(message.includes("step 0, request 1, draw 0"), message);
});

Deno.test("when the last hot row has left, a step asks the sampler for nothing but the best token of each row", () => {
  const hot: readonly Parameters<typeof request>[1][] = [
    { sampling: { temperature: 1, seed: 1n } },
    { sampling: { allowedTokenIds: [30, 60] } },
    { sampling: { logitBias: new Map([[3, 2]]) } },
    { sampling: { numTopLogprobs: 0 } },
    { sampling: { frequencyPenalty: 1 } },
  ];
  for (const [i, overrides] of hot.entries()) {
    const { backend, run } = recordedRun();
    run.submit(owned(0, 2, { maxTokens: 12 }), owned(1, 2, { maxTokens: 12 }));
    run.step();
    run.submit(owned(2, 2, { ...overrides, maxTokens: 4 }));
    run.finish();
    const numBefore = 1 + (i === 4 ? 1 : 0); // Before its first token a penalized row has nothing to penalize.
    const expected = Array.from({ length: 12 }, (_, step) => step < numBefore || step >= 5);
    assertEquals(backend.isBare, expected, JSON.stringify(Object.keys(overrides?.sampling ?? {})));
  }
});
