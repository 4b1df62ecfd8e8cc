/** Requests for tests, and runs of an engine core without threads. */
import fc from "fast-check";
import { type CoreLimits, EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest, RowUpdate } from "../../src/engine/messages.ts";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import type { Failure } from "../../src/engine/failure.ts";
import type { StepReport } from "../../src/engine/step_report.ts";
import { FakeBackend } from "./fake_backend.ts";

export const LIMITS: CoreLimits = { maxBatch: 4, maxContext: 400, maxQueue: 100, prefillChunk: 16 };

export function request(id: string, overrides: Partial<Omit<GenerateRequest, "sampling" | "promptIds">> & {
  readonly sampling?: Partial<SamplingConfig>;
  readonly promptIds?: readonly number[];
} = {}): GenerateRequest {
  const { sampling, promptIds = [1, 2, 3], ...rest } = overrides;
  return {
    id,
    maxTokens: 8,
    stopIds: [],
    promptLogprobs: -1,
    ...rest,
    promptIds: Int32Array.from(promptIds),
    sampling: { ...GREEDY, ...sampling },
  };
}

/** Everything that one request was told. */
export interface Answer {
  readonly updates: RowUpdate[];
  failure: Failure | null;
}

export function tokensOf(answer: Answer | undefined): number[] {
  return answer?.updates.flatMap((update) => update.tokens) ?? [];
}

export function finishOf(answer: Answer | undefined): string | null {
  return answer?.updates.at(-1)?.finishReason ?? null;
}

/** A core whose answers are collected by request; every step is followed by an integrity check. */
export class CoreRun {
  readonly answers = new Map<string, Answer>();
  /** Steps launch the next one's forward before they end. */
  launchesNext = false;

  constructor(readonly core: EngineCore) {}

  static with(backend: FakeBackend, limits: Partial<CoreLimits> = {}): CoreRun {
    return new CoreRun(new EngineCore(backend, { ...LIMITS, ...limits }));
  }

  submit(...requests: GenerateRequest[]): this {
    for (const one of requests) {
      const failure = this.core.submit(one);
      const known = this.answers.get(one.id);
      if (known === undefined) this.answers.set(one.id, { updates: [], failure });
      else known.failure ??= failure;
    }
    return this;
  }

  step(): void {
    this.#take(this.core.step(this.launchesNext));
  }

  limitMemory(memoryBytes: number): void {
    this.#take(this.core.limitMemory(memoryBytes));
  }

  /** Steps until there is no work; an engine that does not come to an end is an error. */
  finish(maxSteps = 5000): this {
    for (let steps = 0; this.core.hasWork; steps++) {
      if (steps === maxSteps) throw new Error(`Still ${this.core.scheduler.rows.numRows} rows after ${maxSteps} steps`);
      this.step();
    }
    return this;
  }

  tokens(id: string): number[] {
    return tokensOf(this.answers.get(id));
  }

  #take({ updates, failures }: StepReport): void {
    for (const update of updates) this.#answer(update.id).updates.push(update);
    for (const failure of failures) this.#answer(failure.id).failure = failure;
    this.core.scheduler.rows.checkIntegrity();
  }

  #answer(id: string): Answer {
    const answer = this.answers.get(id);
    if (!answer) throw new Error(`An update came for "${id}", which nobody submitted`);
    return answer;
  }
}

/** What the request is told when it has the engine for itself. */
export function solo(one: GenerateRequest): Answer {
  const answer = CoreRun.with(new FakeBackend()).submit(one).finish().answers.get(one.id);
  if (!answer) throw new Error(`No answer for "${one.id}"`);
  return answer;
}

const token = fc.integer({ min: 0, max: 20 });

/** Configurations that differ in every part of a row's state: packed struct, edits, counts, masks. */
export const samplings: fc.Arbitrary<Partial<SamplingConfig>> = fc.record({
  temperature: fc.constantFrom(0, 0.5, 1.3),
  topK: fc.constantFrom(0, 1, 40),
  seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  repetitionPenalty: fc.constantFrom(1, 1, 1.3),
  repetitionContextSize: fc.integer({ min: 1, max: 12 }),
  frequencyPenalty: fc.constantFrom(0, 0, 0.5),
  presencePenalty: fc.constantFrom(0, 0, -0.5),
  dryMultiplier: fc.constantFrom(0, 0, 0.8),
  logitBias: fc.array(fc.tuple(token, fc.constantFrom(-1, 2, -Infinity)), { maxLength: 3 }).map((pairs) => new Map(pairs)),
  minTokens: fc.integer({ min: 0, max: 4 }),
  badWords: fc.array(fc.array(token, { minLength: 1, maxLength: 2 }), { maxLength: 2 }),
  allowedTokenIds: fc.constantFrom(null, null, [30, 60, 90, 120]),
  numTopLogprobs: fc.constantFrom(-1, 0, 3),
}, { noNullPrototype: true });

/** Requests without ids. */
export const requestBodies = fc.record({
  promptIds: fc.array(token, { minLength: 1, maxLength: 60 }),
  maxTokens: fc.integer({ min: 0, max: 12 }),
  stopIds: fc.array(fc.integer({ min: 0, max: 209 }), { maxLength: 6 }),
  promptLogprobs: fc.constantFrom(-1, -1, -1, 0, 2),
  sampling: samplings,
}, { noNullPrototype: true });
