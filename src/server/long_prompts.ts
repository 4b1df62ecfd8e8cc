/** Renders and tokenizes long prompts away from the thread that serves the streams. */
import type { PromptJob, PromptJobResult } from "../models/prompt_worker.ts";
import { ChatTemplateError } from "../tokenizer/chat_template.ts";
import { ApiError, shuttingDown } from "./errors.ts";
import { TaskQueue } from "./task_queue.ts";

export interface LongPromptsOptions {
  /** Time for one job. Some texts, a run of half a million spaces say, take time that grows faster than they do. @default 20,000 */
  readonly timeoutMs?: number;
  /** The thread ends when there was nothing to do for so long. @default 300,000 */
  readonly idleMs?: number;
  /** @default 64 */
  readonly maxWaiting?: number;
}

/** The text of a conversation that is rendered; else the ids, one list for each text. */
type ResultOf<Job extends PromptJob> = Job["type"] extends "render" ? string : number[][];

const DEFAULTS: Required<LongPromptsOptions> = { timeoutMs: 20_000, idleMs: 300_000, maxWaiting: 64 };
const WORKER_URL = new URL("../models/prompt_worker.ts", import.meta.url);

/** One job at a time, in a worker that is started when there is one. */
export class LongPrompts {
  readonly #settings: Required<LongPromptsOptions>;
  readonly #queue = new TaskQueue();
  #numWaiting = 0;
  #worker: Worker | null = null;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #fail: ((error: Error) => void) | null = null;
  #isClosed = false;

  /** @param path the model's. */
  constructor(readonly path: string, options: LongPromptsOptions = {}) {
    this.#settings = { ...DEFAULTS, ...options };
  }

  /**
   * @param param the field that the texts come from.
   * @throws {ApiError} 400 when it takes too long, 429 when too many wait. {ChatTemplateError}
   */
  async run<Job extends PromptJob>(job: Job, param: string): Promise<ResultOf<Job>> {
    const { maxWaiting } = this.#settings;
    if (this.#numWaiting >= maxWaiting) {
      const message = `${maxWaiting} long prompts wait to be tokenized; try again later`;
      throw new ApiError(429, message, { code: "queue_full", headers: { "retry-after": "5" } });
    }
    this.#numWaiting++;
    try {
      return await this.#queue.run(() => this.#runAlone(job, param));
    } finally {
      this.#numWaiting--;
    }
  }

  /** Ends the thread; who waits for it is told that the server is shutting down. */
  close(): void {
    this.#isClosed = true;
    this.#stop();
    this.#fail?.(shuttingDown());
  }

  #stop(): void {
    clearTimeout(this.#idleTimer);
    this.#worker?.terminate();
    this.#worker = null;
  }

  async #runAlone<Job extends PromptJob>(job: Job, param: string): Promise<ResultOf<Job>> {
    const { timeoutMs, idleMs } = this.#settings;
    if (this.#isClosed) throw shuttingDown();
    const worker = this.#worker ??= this.#spawn();
    clearTimeout(this.#idleTimer);
    const result = Promise.withResolvers<number[][] | string>();
    this.#fail = result.reject;
    const timer = setTimeout(() => {
      result.reject(
        new ApiError(400, `${param}: must be a text that is tokenized within ${timeoutMs} ms`, { param, code: "invalid_value" }),
      );
      this.#stop();
    }, timeoutMs);
    worker.onmessage = ({ data }: MessageEvent<PromptJobResult>): void => {
      if ("ids" in data) result.resolve(data.ids.map((list) => [...list]));
      else if ("text" in data) result.resolve(data.text);
      else result.reject(asError(data.error));
    };
    worker.onerror = (event): void => {
      // Otherwise this thread would fail too.
      event.preventDefault();
      result.reject(new Error(`The thread that tokenizes long prompts failed: ${event.message}`));
      this.#stop();
    };
    worker.postMessage(job);
    try {
      return await result.promise as ResultOf<Job>;
    } finally {
      clearTimeout(timer);
      this.#fail = null;
      if (!this.#isClosed) {
        this.#idleTimer = setTimeout(() => this.#stop(), idleMs);
        Deno.unrefTimer(this.#idleTimer);
      }
    }
  }

  #spawn(): Worker {
    const worker = new Worker(WORKER_URL.href, { type: "module", name: "rowlock-long-prompts" });
    worker.postMessage(this.path);
    return worker;
  }
}

/** Errors lose their class on the way from the worker. */
function asError({ name, message }: { readonly name: string; readonly message: string }): Error {
  return name === "ChatTemplateError" ? new ChatTemplateError(message) : new Error(message);
}
