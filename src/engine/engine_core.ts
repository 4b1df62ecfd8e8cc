import type { SampleCall } from "../native/step_output.ts";
import type { ModelBackend } from "./backend.ts";
import type { PageDisk } from "./disk/page_disk.ts";
import type { Failure } from "./failure.ts";
import { KvRoom, roomyCapacity } from "./kv_room.ts";
import { makeRoom } from "./make_room.ts";
import { denseUse, MemoryBudget, memoryCosts, roundedCapacity } from "./memory_budget.ts";
import type { EngineErrorCode, EngineOptions, EngineStats, GenerateRequest } from "./messages.ts";
import { PrefixReuse } from "./prefix_reuse.ts";
import { findRequestFault } from "./request_check.ts";
import { SamplingBatch } from "./sampling_batch.ts";
import { Scheduler } from "./scheduler.ts";
import { Sequence } from "./sequence.ts";
import { Speculation } from "./speculation.ts";
import { type Flight, goOn, land, launch } from "./step.ts";
import { StepReport } from "./step_report.ts";

export type CoreLimits = Pick<EngineOptions, "maxBatch" | "maxContext" | "maxQueue" | "prefillChunk" | "prefixCacheBytes" | "memoryBytes">;

/** Everything that the engine is made of, without threads and messages: submit and cancel at any time, then `step` while there is work. */
export class EngineCore {
  readonly sampling: SamplingBatch;
  readonly scheduler: Scheduler;
  readonly room: KvRoom;
  readonly budget: MemoryBudget;
  readonly prefixes: PrefixReuse;
  /** What the device computes, in its order. */
  readonly flights: Flight[] = [];
  readonly #totals = { steps: 0, promptTokens: 0, generatedTokens: 0, preemptions: 0 };
  #stepRows = 0;
  #stepMs = 0;
  #arrivals = 0;

  constructor(
    readonly backend: ModelBackend,
    readonly limits: CoreLimits,
    readonly nowMs: () => number = () => performance.now(),
    readonly speculation: Speculation = new Speculation([], { isAdaptive: true }),
    disk: PageDisk | null = null,
  ) {
    checkLimits(limits);
    const { vocabSize } = backend.facts;
    this.sampling = new SamplingBatch(vocabSize);
    this.scheduler = new Scheduler({ ...limits, vocabSize }, this.sampling, ...speculation.columns);
    this.room = new KvRoom(backend, limits.maxBatch);
    backend.reserve(limits.maxBatch, roomyCapacity(limits.maxContext + speculation.maxDrafts));
    this.budget = new MemoryBudget(memoryCosts(backend.facts, limits.prefillChunk + limits.maxBatch), limits.memoryBytes);
    this.prefixes = new PrefixReuse(backend, speculation, { maxBytes: limits.prefixCacheBytes ?? 0, disk, nowMs });
  }

  /** Tokens of one request, prompt and answer, at most: what the context holds and what memory holds for a row that is alone. */
  get maxRowTokens(): number {
    return Math.min(this.limits.maxContext, this.budget.maxRowTokens);
  }

  /** What the engine has to have for one row of that length; more than the limit when not even the shortest one fits. */
  get leastBytes(): number {
    return this.budget.totalBytes(denseUse({ slots: 1, capacity: roundedCapacity(Math.max(1, this.maxRowTokens)) }));
  }

  get hasWork(): boolean {
    return this.scheduler.rows.numRows > 0 || this.scheduler.numWaiting > 0;
  }

  /** All rows wait for pages from the disk: the next step has nothing to do before that answers, or `STALL_MS` are over. */
  get isWaitingForDisk(): boolean {
    return this.#stepRows === 0 && this.prefixes.isWaitingForDisk;
  }

  /** Takes a request in, or says why not. */
  submit(request: GenerateRequest): Failure | null {
    const { vocabSize } = this.backend.facts;
    const refuse = (code: EngineErrorCode, message: string): Failure => ({ id: request.id, code, message });
    if (this.scheduler.find(request.id)) return refuse("engine_error", `A request with id "${request.id}" is running already`);
    const fault = findRequestFault(request, { vocabSize, maxContext: this.maxRowTokens, draftKinds: this.speculation.kinds });
    if (fault !== null) return refuse("engine_error", fault);
    if (!this.scheduler.canEnqueue()) {
      return refuse("queue_full", `${this.scheduler.numWaiting} requests wait, the limit is ${this.limits.maxQueue}`);
    }
    this.scheduler.enqueue(new Sequence(request, this.#arrivals++, this.nowMs()));
    return null;
  }

  /** The request leaves at the next step. Unknown ids are no error: it may have just finished. */
  cancel(id: string): void {
    const sequence = this.scheduler.find(id);
    if (sequence) sequence.outcome ??= { type: "finished", reason: "cancelled" };
  }

  /**
   * Runs one step for all rows. What goes wrong with rows is in the report.
   * @param launchesNext the next step's forward starts before this one's report is handed out, and where it can before this one is over: the
   * device computes while the host tells about the tokens. Requests that come or leave meanwhile do so one step later.
   * @throws {BackendError} when the cache of a failed row cannot be cleared: no later row would be safe.
   */
  step(launchesNext = false): StepReport {
    const report = new StepReport();
    if (this.flights.length === 0) launch(this, report);
    const startMs = this.flights[0]?.startMs ?? this.nowMs();
    if (launchesNext) goOn(this);
    land(this, report);
    this.#stepMs = this.nowMs() - startMs;
    this.#stepRows = report.numStepRows;
    if (launchesNext && this.flights.length === 0 && this.hasWork) launch(this, report);
    this.prefixes.writeBehind();
    this.#count(report);
    return report;
  }

  /** Changes the memory that the engine may take. What is too much is given up at once; the report tells what became of a step on its way. */
  limitMemory(memoryBytes: number): StepReport {
    const report = new StepReport();
    while (this.flights.length > 0) land(this, report);
    this.budget.limit(memoryBytes);
    makeRoom(this, report);
    this.#count(report);
    return report;
  }

  /** Ends every request. */
  failAll(code: EngineErrorCode, message: string): Failure[] {
    this.dropFlights();
    const sequences = [...this.scheduler.rows.sequences, ...this.scheduler.waiting];
    for (const sequence of sequences) sequence.outcome ??= { type: "failed", code, message };
    this.scheduler.leaveQueue();
    this.scheduler.leaveRows();
    for (const sequence of sequences) this.prefixes.leave(sequence);
    return sequences.map(({ id }) => ({ id, code, message }));
  }

  /** Frees the model; what the device computes just now is waited for and dropped. */
  close(): void {
    try {
      this.dropFlights();
    } finally {
      this.backend.close();
    }
  }

  /** Gives the cache's memory back. @returns false when rows are in it or it was empty. */
  releaseMemory(): boolean {
    if (this.hasWork || this.room.slots === 0) return false;
    this.room.release();
    return true;
  }

  stats(): EngineStats {
    const prefix = this.prefixes.figures();
    const draftFailures = this.speculation.failures;
    return {
      ...(prefix === null ? {} : { prefix }),
      ...(draftFailures === null ? {} : { draftFailures }),
      ...this.#totals,
      memoryLimitBytes: this.budget.limitBytes,
      rowsActive: this.scheduler.numActive,
      rowsWaiting: this.scheduler.numWaiting,
      stepRows: this.#stepRows,
      stepMs: this.#stepMs,
      ...this.backend.memory(),
    };
  }

  /** Waits for what the device computes, and forgets it, and its faults. */
  dropFlights(): void {
    for (const { plan, call } of this.flights.splice(0)) {
      if (plan.numOutputs === 0) continue;
      try {
        this.backend.sample(call ?? discardAll(this.sampling, plan.numOutputs));
      } catch {
        // Nobody waits for the draws.
      }
    }
  }

  #count(report: StepReport): void {
    if (report.numStepRows > 0) this.#totals.steps++;
    this.#totals.promptTokens += report.numPromptTokens;
    this.#totals.generatedTokens += report.numGeneratedTokens;
    this.#totals.preemptions += report.numPreemptions;
  }
}

function discardAll(sampling: SamplingBatch, numOutputs: number): SampleCall {
  sampling.begin();
  for (let i = 0; i < numOutputs; i++) sampling.addDiscarded();
  return sampling.call;
}

function checkLimits(limits: CoreLimits): void {
  const lowest = { maxBatch: 1, maxContext: 1, maxQueue: 0, prefillChunk: 1, prefixCacheBytes: 0 };
  for (const name of Object.keys(lowest) as (keyof typeof lowest)[]) {
    const value = limits[name];
    if (value === undefined) continue;
    if (!Number.isInteger(value) || value < lowest[name]) {
      throw new RangeError(`${name} is ${value}, allowed are whole numbers from ${lowest[name]}`);
    }
  }
}
