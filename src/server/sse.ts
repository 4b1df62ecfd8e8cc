/** Server-sent events: the exact bytes. */

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

/** What stands before the data of an event, and behind it. JSON has no raw line feeds, so that the data is always one line. */
export const EVENT_START = "data: ";
export const EVENT_END = "\n\n";

/** One event. */
export function formatEvent(json: string): string {
  return EVENT_START + json + EVENT_END;
}
