/** One request on its way through the server: who it is, what is known for its log line, and when it has ended. */
import { toApiError } from "./errors.ts";
import type { GenerationSummary } from "./generation.ts";
import type { RequestRecord } from "./logging.ts";

/** The client went away; nobody reads the answer to this. */
export class ClientGoneError extends Error {
  override name = "ClientGoneError";
}

/** Status in log and metrics of a request whose client left first, as nginx counts them. */
const CLIENT_CLOSED_REQUEST = 499;

export interface ExchangeOptions {
  readonly request: Request;
  readonly requestId: string;
  readonly startMs: number;
  /** Called once, when the last byte is out or the client is gone. */
  readonly onEnd: (exchange: Exchange) => void;
}

export class Exchange {
  readonly requestId: string;
  readonly startMs: number;
  readonly request: Request;
  /** The route's pattern, never the path that was sent. */
  route = "unmatched";
  status = 200;
  promptTokens: number | null = null;
  summary: GenerationSummary | null = null;
  #failure: unknown = null;
  /** The body goes on after the handler has returned. */
  #isStreaming = false;
  #isEnded = false;
  #leave: (() => void) | null = null;
  readonly #atEnd: (() => void)[] = [];
  readonly #onEnd: (exchange: Exchange) => void;

  constructor({ request, requestId, startMs, onEnd }: ExchangeOptions) {
    this.request = request;
    this.requestId = requestId;
    this.startMs = startMs;
    this.#onEnd = onEnd;
  }

  get isStreaming(): boolean {
    return this.#isStreaming;
  }

  get isClientGone(): boolean {
    return this.#failure instanceof ClientGoneError;
  }

  /**
   * Calls `leave` when the client goes away before there is a body to cancel: only the signal tells. Without `no-legacy-abort` (deno.json) Deno
   * fires it after a complete answer too, so nobody listens any more by then.
   */
  watchClient(leave: () => void): void {
    this.#leave = leave;
    this.request.signal.addEventListener("abort", leave);
    if (this.request.signal.aborted) leave();
  }

  unwatchClient(): void {
    if (this.#leave !== null) this.request.signal.removeEventListener("abort", this.#leave);
    this.#leave = null;
  }

  /** From now on the body decides when the exchange ends, and its cancellation tells that the client has gone. */
  startStream(): void {
    this.#isStreaming = true;
    this.unwatchClient();
  }

  /** Calls `action` when the exchange has ended; at once when it has already. */
  atEnd(action: () => void): void {
    if (this.#isEnded) action();
    else this.#atEnd.push(action);
  }

  /** The first failure counts: what follows is its echo. */
  fail(error: unknown): void {
    if (this.#isEnded) return;
    this.#failure ??= error;
    if (this.isClientGone) this.status = CLIENT_CLOSED_REQUEST;
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    for (const action of this.#atEnd) action();
    this.#onEnd(this);
  }

  record(nowMs: number): RequestRecord {
    const { summary, request } = this;
    return {
      requestId: this.requestId,
      method: request.method,
      path: new URL(request.url).pathname,
      status: this.status,
      durationMs: tenths(nowMs - this.startMs),
      outcome: this.isClientGone ? "disconnected" : this.#failure === null ? "ok" : toApiError(this.#failure).code ?? "error",
      ...(this.promptTokens === null ? {} : { promptTokens: this.promptTokens }),
      ...(summary === null ? {} : {
        completionTokens: summary.completionTokens,
        queueMs: tenths(summary.queueMs),
        prefillMs: tenths(summary.prefillMs),
        decodeMs: tenths(summary.decodeMs),
        tokensPerSecond: tenths(summary.tokensPerSecond),
      }),
      ...this.#errorText(),
    };
  }

  /** The text behind a 500 is for the operator: the client only learns that there was one. */
  #errorText(): { readonly error?: string } {
    if (this.#failure === null || this.isClientGone) return {};
    const error = toApiError(this.#failure);
    if (error.status < 500 || error.code === "shutting_down") return {};
    const { cause } = error;
    return { error: cause instanceof Error ? cause.stack ?? cause.message : error.message };
  }
}

/** Clocks are not finer than that, and what their floats have beyond it is noise. */
function tenths<T extends number | null>(value: T): T {
  return (value === null ? null : Math.round(value * 10) / 10) as T;
}
