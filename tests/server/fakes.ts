/** An engine that says what a test wants, a tokenizer of bytes, and an app made of them. */
import { type Engine, EngineError, type Updates } from "../../src/engine/engine.ts";
import {
  type EngineErrorCode,
  type EngineStats,
  type GenerateRequest,
  NO_STATS,
  type RowUpdate,
  type TokenLogprob,
} from "../../src/engine/messages.ts";
import { UpdateQueue } from "../../src/engine/update_queue.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { type App, createApp } from "../../src/server/app.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { JinjaTemplate } from "../../src/tokenizer/jinja_template.ts";
import { SpecialTokenSplitter } from "../../src/tokenizer/special_tokens.ts";
import type { EncodeOptions, SpecialToken, Tokenizer } from "../../src/tokenizer/tokenizer.ts";

export const BOS = 256;
export const EOS = 257;
const IM_START = 258;
export const VOCAB_SIZE = 264;
/** Tokens of several bytes. */
export const PIECES: ReadonlyMap<number, string> = new Map([[259, " beta"], [260, "):"], [261, "own"]]);

const utf8 = new TextEncoder();
const special = (id: number, content: string): SpecialToken => ({ id, content, stripsLeft: false, stripsRight: false });

/** Ids 0 … 255 are bytes. */
export class ByteTokenizer implements Tokenizer {
  readonly vocabSize = VOCAB_SIZE;
  readonly eosId = EOS;
  readonly stripsLeadingSpace = false;
  readonly specialTokens = [special(BOS, "<s>"), special(EOS, "<|im_end|>"), special(IM_START, "<|im_start|>")];

  constructor(readonly bosId: number | null = null) {}

  encode(text: string, options: EncodeOptions = {}): number[] {
    const bos = options.addSpecial && this.bosId !== null ? [this.bosId] : [];
    const parts = options.parseSpecial ? new SpecialTokenSplitter(this.specialTokens).split(text) : [{ text }];
    return [...bos, ...parts.flatMap((part) => "special" in part ? [part.special.id] : [...utf8.encode(part.text)])];
  }

  decode(ids: readonly number[], options: { readonly keepSpecial?: boolean } = {}): string {
    const bytes = ids.flatMap((
      id,
    ) => [...(this.isSpecial(id) ? utf8.encode(options.keepSpecial ? this.#content(id) : "") : this.tokenBytes(id))]);
    return new TextDecoder().decode(Uint8Array.from(bytes));
  }

  tokenBytes(id: number): Uint8Array {
    return id < 256 ? Uint8Array.of(id) : utf8.encode(PIECES.get(id) ?? "");
  }

  isSpecial(id: number): boolean {
    return this.specialTokens.some((token) => token.id === id);
  }

  #content(id: number): string {
    return this.specialTokens.find((token) => token.id === id)!.content;
  }
}

/** What one request brings: its tokens, and how it ends. */
export interface Script {
  readonly tokens: readonly number[];
  /** Tokens of one update. @default 1 */
  readonly tokensPerStep?: number;
  /** Fails after the tokens, in place of a finish. */
  readonly error?: EngineErrorCode;
  /** After the tokens nothing comes any more. */
  readonly isStalled?: boolean;
  /** Time before the first token, or before the failure when there are none. @default 0 */
  readonly delayMs?: number;
}

/** Text as the tokens of an answer that ends by itself. */
export function say(text: string): number[] {
  return [...utf8.encode(text), EOS];
}

/** Plays scripts. Respects maxTokens and stop ids as the real engine does. */
export class FakeEngine implements Engine {
  readonly facts = { vocabSize: VOCAB_SIZE, weightBytes: 1000, kvBytesPerToken: 8, device: "fake", loadMs: 1 };
  stats: EngineStats = NO_STATS;
  health = { ok: true, reason: "ok" };
  readonly requests: GenerateRequest[] = [];
  readonly cancelled: string[] = [];
  readonly #listeners = new Set<(stats: EngineStats) => void>();

  constructor(public script: (request: GenerateRequest, index: number) => Script = () => ({ tokens: say("Hello") })) {}

  /** Requests that have neither ended nor been cancelled. */
  numLive = 0;

  /** For tests: what becomes of an update of the request with this place in `requests`. */
  protected changed(update: RowUpdate, _index: number): RowUpdate {
    return update;
  }

  generate(request: GenerateRequest): Updates {
    const script = this.script(request, this.requests.length);
    this.requests.push(request);
    this.numLive++;
    const queue = new UpdateQueue(() => {
      this.cancelled.push(request.id);
      this.numLive--;
    });
    void this.#play(request, script, queue);
    return queue;
  }

  onStep(listener: (stats: EngineStats) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** As if the engine had made a step. */
  step(stats: Partial<EngineStats>): void {
    this.stats = { ...this.stats, ...stats };
    for (const listener of this.#listeners) listener(this.stats);
  }

  get numListeners(): number {
    return this.#listeners.size;
  }

  /** What it was told that it may take, in order. */
  readonly memoryLimits: number[] = [];

  limitMemory(memoryBytes: number): Promise<void> {
    this.memoryLimits.push(memoryBytes);
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #play(request: GenerateRequest, script: Script, queue: UpdateQueue): Promise<void> {
    const { tokens, tokensPerStep = 1 } = script;
    const wanted = tokens.slice(0, request.maxTokens);
    const stopAt = wanted.findIndex((id) => request.stopIds.includes(id));
    const answer = stopAt === -1 ? wanted : wanted.slice(0, stopAt + 1);
    const isOpen = script.error !== undefined || script.isStalled;
    const numUpdates = Math.max(isOpen ? 0 : 1, Math.ceil(answer.length / tokensPerStep));
    if (script.delayMs !== undefined) await new Promise((resolve) => setTimeout(resolve, script.delayMs));
    for (let step = 0; step < numUpdates; step++) {
      await new Promise((resolve) => setTimeout(resolve, 0));
      if (this.cancelled.includes(request.id)) return;
      const part = answer.slice(step * tokensPerStep, (step + 1) * tokensPerStep);
      const isLast = !isOpen && step === numUpdates - 1;
      if (isLast) this.numLive--;
      const update = updateOf(request, part, step === 0, isLast ? (stopAt === -1 ? "length" : "stop") : null);
      queue.push(this.changed(update, this.requests.indexOf(request)));
    }
    if (script.error === undefined) return;
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (!this.cancelled.includes(request.id)) this.numLive--;
    queue.fail(new EngineError(script.error, `The engine says ${script.error}`));
  }
}

function updateOf(
  request: GenerateRequest,
  tokens: readonly number[],
  isFirst: boolean,
  finishReason: "stop" | "length" | null,
): RowUpdate {
  const { numTopLogprobs } = request.sampling;
  return {
    id: request.id,
    tokens,
    logprobs: numTopLogprobs < 0 ? [] : tokens.map((token) => logprobOf(token, numTopLogprobs)),
    ...(isFirst && request.promptLogprobs >= 0
      ? { promptLogprobs: [...request.promptIds].map((id, i) => i === 0 ? null : logprobOf(id, request.promptLogprobs)) }
      : {}),
    finishReason,
    ...(finishReason !== null || isFirst ? { timings: { queueMs: 1, prefillMs: 2, decodeMs: finishReason === null ? 0 : 4 } } : {}),
  };
}

/** A value that depends on the token only; alternatives are the ids that follow it. */
export function logprobOf(token: number, numTop: number): TokenLogprob {
  const logprob = (id: number): number => -(id % 7) / 8 - 0.125;
  const top = Array.from({ length: numTop }, (_, i) => (token + i) % VOCAB_SIZE).map((id) => ({ token: id, logprob: logprob(id) }));
  return { logprob: logprob(token), top: top.sort((a, b) => b.logprob - a.logprob) };
}

export const CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

export function fakeModel(changes: Partial<LoadedModel> = {}): LoadedModel {
  return {
    id: "test/tiny",
    modelType: "llama",
    spec: { config: {}, tensors: [] },
    vocabSize: VOCAB_SIZE,
    maxContext: 256,
    stopIds: [EOS],
    tokenizer: new ByteTokenizer(),
    chatTemplate: new JinjaTemplate(CHATML),
    generationDefaults: {},
    ...changes,
  };
}

export interface TestApp {
  readonly app: App;
  readonly engine: FakeEngine;
  readonly log: string[];
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  get(path: string, init?: RequestInit): Promise<Response>;
}

/** An app whose ids, seeds and creation time are fixed. */
export function testApp(engine = new FakeEngine(), options: Partial<ServerOptions> = {}, model: Partial<LoadedModel> = {}): TestApp {
  const log: string[] = [];
  let numIds = 0;
  const app = createApp({
    models: [{ model: fakeModel(model), engine }],
    options: {
      newId: () => `id${numIds++}`,
      randomSeed: () => 77n,
      nowMs: () => 1_700_000_000_000 + performance.now() % 1000,
      writeLog: (line) => log.push(line),
      ...options,
    },
  });
  const url = (path: string): string => `http://localhost${path}`;
  return {
    app,
    engine,
    log,
    post: (path, body, headers = {}) =>
      app.fetch(
        new Request(url(path), {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: typeof body === "string" ? body : JSON.stringify(body),
        }),
      ),
    get: (path, init) => app.fetch(new Request(url(path), init)),
  };
}

/** What answers look like to a test. */
// deno-lint-ignore no-explicit-any
export type Json = any;

export const HELLO = { messages: [{ role: "user", content: "Hi" }] };

/** The JSON of every `data:` line but `[DONE]`. */
export function eventsOf(text: string): Json[] {
  return text.split("\n\n").filter((event) => event.startsWith("data: ") && event !== "data: [DONE]").map((event) =>
    JSON.parse(event.slice(6))
  );
}

/** Waits for the event loop to run what is due. */
export function tick(ms = 5): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
