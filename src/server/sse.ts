/** Server-sent events: the exact bytes, one pull of the reader at a time. */
const encoder = new TextEncoder();

/** The event that ends a stream of OpenAI's protocol. */
export const DONE = "data: [DONE]\n\n";
/** A comment: every client of the protocol skips it, and proxies see life. An empty `data:` would break clients. */
export const KEEP_ALIVE = ": keep-alive\n\n";

export const SSE_HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream; charset=utf-8",
  // no-transform: whoever compresses a stream collects it first.
  "cache-control": "no-cache, no-transform",
  // Proxies of the nginx family hold a stream back without this.
  "x-accel-buffering": "no",
};

/** One event. JSON has no raw line feeds, so that the data is always one line. */
export function formatEvent(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

export interface SseOptions {
  /** Silence after which a comment is sent. */
  readonly keepAliveMs: number;
  /** The client went away; not called after the end of the stream. */
  readonly onCancel: () => void;
}

/**
 * A body of the texts that `source` yields. Nothing is asked of `source` before the reader wants more (no read-ahead), so a slow reader holds up only itself.
 * `source` has to end by itself; when the reader leaves, `onCancel` is called and `source.return()` too.
 */
export function sseBody(source: AsyncGenerator<string>, options: SseOptions): ReadableStream<Uint8Array> {
  let pending: Promise<IteratorResult<string>> | null = null;
  return new ReadableStream<Uint8Array>({
    async pull(controller): Promise<void> {
      pending ??= source.next();
      const result = await orTimeout(pending, options.keepAliveMs);
      if (result === null) {
        controller.enqueue(encoder.encode(KEEP_ALIVE));
        return;
      }
      pending = null;
      if (result.done) controller.close();
      else controller.enqueue(encoder.encode(result.value));
    },
    async cancel(): Promise<void> {
      options.onCancel();
      // A generator that waits for its next item answers return() only after it: onCancel has to wake it.
      await source.return(undefined);
    },
  }, { highWaterMark: 0 });
}

/** @returns null when `promise` has not settled in time. */
export async function orTimeout<T>(promise: Promise<T>, timeoutMs: number): Promise<T | null> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<null>((resolve) => timer = setTimeout(() => resolve(null), timeoutMs));
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
