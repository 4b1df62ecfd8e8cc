/** Runs the sequences of one request and hands out what they bring, merged for as long as nobody asks. Stream and non-stream read the same deltas. */
import { type Engine, EngineError, type Updates } from "../engine/engine.ts";
import type { DraftRound, GenerateRequest, RowTimings, RowUpdate, TokenLogprob } from "../engine/messages.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { type ChoiceDelta, ChoiceText, type ChoiceTextOptions } from "./choice_text.ts";

/** One sequence to run. Its place in the list is the index of its choice. */
export interface Sequence extends ChoiceTextOptions {
  readonly request: GenerateRequest;
}

/** News of one choice. */
export interface GenerationEvent extends ChoiceDelta {
  readonly index: number;
  /** With the choice's first event, when asked for. */
  promptLogprobs: readonly (TokenLogprob | null)[] | null;
}

/** Numbers of a request, for usage, timings, log and histograms. Times are the slowest sequence's. */
export interface GenerationSummary {
  readonly completionTokens: number;
  /** null when a sequence ended before its first token. */
  readonly queueMs: number | null;
  readonly prefillMs: number | null;
  readonly decodeMs: number | null;
  readonly tokensPerSecond: number | null;
  /** From the start to the first token; null when none came. */
  readonly firstTokenMs: number | null;
  /** Prompt tokens that no choice had to compute: each prompt counts once, like in the usage. */
  readonly cachedTokens: number;
  /** Of all sequences together; null when the engine has nobody who drafts. */
  readonly drafts: DraftFigures | null;
}

/** How drafting went. */
export interface DraftFigures {
  readonly numRounds: number;
  readonly numDrafts: number;
  readonly numAccepted: number;
}

export interface GenerationOptions {
  readonly tokenizer: Tokenizer | null;
  readonly nowMs: () => number;
  /** So many neighbours in the list have the same prompt. @default 1 */
  readonly numChoicesPerPrompt?: number;
  /** The engine has somebody who drafts. @default false */
  readonly canDraft?: boolean;
  /** Called for every round of every sequence. */
  readonly onRound?: (round: DraftRound) => void;
  /** Called once, when every sequence has ended, however it ended. */
  readonly onEnd: (summary: GenerationSummary) => void;
}

interface Choice {
  readonly text: ChoiceText;
  readonly updates: Updates;
  /** What nobody has taken yet. */
  pending: GenerationEvent | null;
  /** Prompt tokens that came from the prefix cache. */
  cachedTokens: number;
  /** The engine's newest word: after the first token without the decoding, at the end with it. */
  timings: RowTimings | null;
  /** The engine has told the time of the decoding. */
  hasDecodeMs: boolean;
}

export class Generation {
  readonly #choices: readonly Choice[];
  readonly #options: GenerationOptions;
  readonly #startMs: number;
  #firstTokenMs: number | null = null;
  #lastTokenMs: number | null = null;
  #drafts: DraftFigures = { numRounds: 0, numDrafts: 0, numAccepted: 0 };
  #numRunning: number;
  #failure: { readonly error: unknown } | null = null;
  readonly #firstNews = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #listener: (() => void) | null = null;
  #isAboutToTell = false;

  constructor(engine: Engine, sequences: readonly Sequence[], options: GenerationOptions) {
    this.#options = options;
    this.#startMs = options.nowMs();
    this.#numRunning = sequences.length;
    this.#choices = startAll(engine, sequences).map((updates, index) => ({
      text: new ChoiceText(options.tokenizer, sequences[index]!),
      updates,
      pending: null,
      cachedTokens: 0,
      timings: null,
      hasDecodeMs: false,
    }));
    this.#choices.forEach((choice, index) => this.#listen(choice, index));
  }

  get numChoices(): number {
    return this.#choices.length;
  }

  /** What ended the request early; null while nothing did. */
  get failure(): { readonly error: unknown } | null {
    return this.#failure;
  }

  /** Every choice has had its finish reason, or the request has failed. */
  get isEnded(): boolean {
    return this.#numRunning === 0;
  }

  /** Settles with the first news of any choice, a failure included; never rejects. */
  get firstNews(): Promise<void> {
    return this.#firstNews.promise;
  }

  /** Settles at the end, however it comes; never rejects. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Ends all sequences that still run; readers get `error`. */
  abort(error: unknown): void {
    if (this.#numRunning === 0) return;
    this.#fail(error);
  }

  /** Calls `listener` whenever there is something to take, and at the end. For one reader. */
  onNews(listener: () => void): void {
    this.#listener = listener;
  }

  /** What came since the last time, merged to one event for each choice that has any. */
  take(): GenerationEvent[] {
    const events: GenerationEvent[] = [];
    for (const choice of this.#choices) {
      if (choice.pending === null) continue;
      events.push(choice.pending);
      choice.pending = null;
    }
    return events;
  }

  summary(): GenerationSummary {
    const completionTokens = this.#choices.reduce((sum, { text }) => sum + text.numTokens, 0);
    const slowest = (part: keyof RowTimings): number | null =>
      this.#choices.every(({ timings }) => timings !== null) ? Math.max(...this.#choices.map(({ timings }) => timings![part])) : null;
    const hasTokens = this.#firstTokenMs !== null && this.#lastTokenMs !== null;
    // Whoever ends at a stop string, or is left, does so before the engine has told: then it is what was seen here.
    const isTold = this.#choices.every(({ hasDecodeMs }) => hasDecodeMs);
    const decodeMs = isTold ? slowest("decodeMs") : hasTokens ? this.#lastTokenMs! - this.#firstTokenMs! : null;
    return {
      completionTokens,
      queueMs: slowest("queueMs"),
      prefillMs: slowest("prefillMs"),
      decodeMs,
      tokensPerSecond: decodeMs !== null && decodeMs > 0 ? completionTokens / (decodeMs / 1000) : null,
      firstTokenMs: this.#firstTokenMs === null ? null : this.#firstTokenMs - this.#startMs,
      cachedTokens: this.#cachedTokens(),
      drafts: this.#options.canDraft ? this.#drafts : null,
    };
  }

  #cachedTokens(): number {
    const { numChoicesPerPrompt = 1 } = this.#options;
    let sum = 0;
    for (let i = 0; i < this.#choices.length; i += numChoicesPerPrompt) {
      sum += Math.min(...this.#choices.slice(i, i + numChoicesPerPrompt).map(({ cachedTokens }) => cachedTokens));
    }
    return sum;
  }

  /** Takes updates as fast as the engine writes them, so that a slow client keeps no row and no queue waiting. */
  #listen(choice: Choice, index: number): void {
    choice.updates.listen({
      onUpdate: (update): void => {
        try {
          this.#takeIn(choice, index, update);
        } catch (error) {
          this.#fail(error);
        }
      },
      onFailure: (error): void => this.#fail(error),
    });
  }

  #takeIn(choice: Choice, index: number, update: RowUpdate): void {
    if (update.finishReason === "cancelled") throw new EngineError("engine_error", "The engine cancelled a sequence by itself");
    if (update.tokens.length > 0) {
      this.#lastTokenMs = this.#options.nowMs();
      this.#firstTokenMs ??= this.#lastTokenMs;
    }
    choice.timings = update.timings ?? choice.timings;
    choice.cachedTokens = update.cachedTokens ?? choice.cachedTokens;
    choice.hasDecodeMs = update.finishReason !== null;
    if (update.round !== undefined) this.#countRound(update.round);
    const event = choice.pending ??= emptyEvent(index);
    event.promptLogprobs ??= update.promptLogprobs ?? null;
    choice.text.push(update, event);
    // An answer that is cut by a stop string ends here, whatever the engine still sends.
    if (event.finishReason !== null) this.#endChoice(choice);
    this.#tell();
  }

  #countRound(round: DraftRound): void {
    const { numRounds, numDrafts, numAccepted } = this.#drafts;
    this.#drafts = {
      numRounds: numRounds + 1,
      numDrafts: numDrafts + round.numDrafts,
      numAccepted: numAccepted + round.numAccepted,
    };
    this.#options.onRound?.(round);
  }

  #endChoice(choice: Choice): void {
    this.#numRunning--;
    leave(choice.updates);
    if (this.#numRunning === 0) this.#options.onEnd(this.summary());
  }

  #fail(error: unknown): void {
    if (this.#failure !== null) return;
    this.#failure = { error };
    this.#numRunning = 0;
    for (const { updates } of this.#choices) leave(updates);
    this.#options.onEnd(this.summary());
    this.#tell();
  }

  /** A step brings news of several choices one after the other: the reader hears of them together. */
  #tell(): void {
    if (this.#isAboutToTell) return;
    this.#isAboutToTell = true;
    soon(() => {
      this.#isAboutToTell = false;
      this.#firstNews.resolve();
      if (this.isEnded) this.#ended.resolve();
      this.#listener?.();
    });
  }
}

/** What one microtask calls: a step has news for many generations. */
let called: (() => void)[] = [];

function soon(call: () => void): void {
  if (called.push(call) > 1) return;
  queueMicrotask(() => {
    const calls = called;
    called = [];
    for (const one of calls) one();
  });
}

/** Starts every sequence, or none: those that started before one failed to are left again. */
function startAll(engine: Engine, sequences: readonly Sequence[]): Updates[] {
  const started: Updates[] = [];
  try {
    for (const { request } of sequences) started.push(engine.generate(request));
    return started;
  } catch (error) {
    started.forEach(leave);
    throw error;
  }
}

/** Tells the engine that nobody reads on. What it answers to that is of no interest any more. */
function leave(updates: Updates): void {
  void updates.return();
}

function emptyEvent(index: number): GenerationEvent {
  return { index, text: "", tokens: [], stopToken: null, finishReason: null, promptLogprobs: null };
}

/** One choice's whole answer. */
export type ChoiceResult = Omit<GenerationEvent, "finishReason"> & { readonly finishReason: "stop" | "length" };

/** All answers of a generation that has ended well and that nobody has taken anything of. */
export function takeResults(generation: Generation): ChoiceResult[] {
  return generation.take().map((event) => ({ ...event, finishReason: event.finishReason ?? "stop" }));
}
