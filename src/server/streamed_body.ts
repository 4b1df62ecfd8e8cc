/** A response body whose text comes bit by bit. */
import { encodeUtf8 } from "./utf8_arena.ts";

/** Where the text comes from. It is asked only when the reader wants more: what comes meanwhile it merges. */
export interface TextSource {
  /** All that there is to send by now; "" when there is nothing new. */
  take(): string;
  /** Nothing comes after what was taken. */
  readonly isEnded: boolean;
  /** Ended before it was whole: then the body is broken off instead of closed, so that nobody takes it for whole. */
  readonly isBroken: boolean;
  /** Calls `listener` whenever there is something to take, and when it has ended. */
  onNews(listener: () => void): void;
}

export interface StreamedBodyOptions {
  /** What is sent in a silence, so that proxies see life. */
  readonly keepAlive: string;
  /** Silence after which it is sent. */
  readonly keepAliveMs: number;
  /** The client went away; not called after the end. */
  readonly onCancel: () => void;
}

/** A body was broken off on purpose; its client has been told why. */
export class BrokenOffError extends Error {
  override name = "BrokenOffError";
}

/** Nothing is read ahead, so a slow reader holds up only itself. Works with callbacks alone: a promise for each token costs more than the token. */
export function streamedBody(source: TextSource, options: StreamedBodyOptions): ReadableStream<Uint8Array> {
  return new ReadableStream(new StreamedBody(source, options), { highWaterMark: 0 });
}

class StreamedBody implements UnderlyingDefaultSource<Uint8Array> {
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #isWanted = false;
  #isOver = false;
  #lastSentMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly source: TextSource, readonly options: StreamedBodyOptions) {}

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.source.onNews(() => this.#send());
  }

  pull(): void {
    this.#isWanted = true;
    if (this.#timer === undefined) this.#startTimer(this.options.keepAliveMs);
    this.#send();
  }

  cancel(): void {
    this.#end();
    this.options.onCancel();
  }

  #send(): void {
    if (!this.#isWanted || this.#isOver) return;
    const text = this.source.take();
    if (text !== "") this.#enqueue(text);
    // The reader that has taken the text may have asked for more, and learnt of the end, by now.
    if (!this.source.isEnded || this.#isOver) return;
    this.#end();
    if (this.source.isBroken) this.#controller!.error(new BrokenOffError("The answer was broken off"));
    else this.#controller!.close();
  }

  #enqueue(text: string): void {
    this.#isWanted = false;
    this.#lastSentMs = performance.now();
    this.#controller!.enqueue(encodeUtf8(text));
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  /** One timer that looks whether it was silent is cheaper than one that every text sets anew. */
  #startTimer(waitMs: number): void {
    this.#timer = setTimeout(() => {
      const { keepAlive, keepAliveMs } = this.options;
      const silentMs = performance.now() - this.#lastSentMs;
      const isSilent = silentMs >= keepAliveMs;
      if (isSilent && this.#isWanted) this.#enqueue(keepAlive);
      if (!this.#isOver) this.#startTimer(isSilent ? keepAliveMs : keepAliveMs - silentMs);
    }, waitMs);
  }
}
