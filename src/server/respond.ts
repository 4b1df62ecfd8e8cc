/** Sends a generation to its client, whole or as a stream. */
import type { Answer } from "./answer.ts";
import { eventStream, wholeJson, wholeText } from "./answer_text.ts";
import { ClientGoneError, type Exchange } from "./exchange.ts";
import type { Generation } from "./generation.ts";
import { orTimeout } from "./or_timeout.ts";
import type { Services } from "./services.ts";
import { KEEP_ALIVE, SSE_HEADERS } from "./sse.ts";
import { streamedBody, type TextSource } from "./streamed_body.ts";

/** How long an answer holds back its headers for an error status, or for its whole text. */
const HEADERS_WAIT_MS = 250;
const JSON_HEADERS: Readonly<Record<string, string>> = { "content-type": "application/json" };
/** White space may stand before any JSON. */
const JSON_KEEP_ALIVE = " ";

export interface RespondOptions {
  readonly isStream: boolean;
  /** A last chunk with the usage was asked for. */
  readonly includesUsage: boolean;
}

/**
 * What takes longer than a moment gets its headers, and a body that can be cancelled: only that tells for certain that the client has gone. (Deno
 * fires a request's signal only when the whole request came in one piece.)
 * @throws whatever failed the generation, as long as no byte of the answer is out.
 */
export async function respond(
  services: Services,
  exchange: Exchange,
  generation: Generation,
  answer: Answer,
  { isStream, includesUsage }: RespondOptions,
): Promise<Response> {
  await orTimeout(isStream ? generation.firstNews : generation.ended, Math.min(services.options.keepAliveMs, HEADERS_WAIT_MS));
  if (generation.failure !== null) throw generation.failure.error;
  if (isStream) {
    const events = eventStream(exchange, generation, answer, includesUsage);
    return open(services, exchange, generation, events, KEEP_ALIVE, SSE_HEADERS);
  }
  if (!generation.isEnded) {
    return open(services, exchange, generation, wholeJson(exchange, generation, answer), JSON_KEEP_ALIVE, JSON_HEADERS);
  }
  return new Response(wholeText(exchange, generation, answer), { headers: JSON_HEADERS });
}

/** From now on the body decides when the exchange ends, and its cancellation tells that the client has gone. */
function open(
  { options: { keepAliveMs } }: Services,
  exchange: Exchange,
  generation: Generation,
  source: TextSource,
  keepAlive: string,
  headers: Readonly<Record<string, string>>,
): Response {
  exchange.startStream();
  const onCancel = (): void => {
    const error = new ClientGoneError("The client went away");
    exchange.fail(error);
    generation.abort(error);
    exchange.end();
  };
  return new Response(streamedBody(source, { keepAlive, keepAliveMs, onCancel }), { headers });
}
