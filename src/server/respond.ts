/** Sends a generation to its client, whole or as a stream. */
import { type Answer, type AnswerNumbers, answerNumbers } from "./answer.ts";
import { errorBody, toApiError } from "./errors.ts";
import { ClientGoneError, type Exchange } from "./exchange.ts";
import { collect, type Generation } from "./generation.ts";
import type { Services } from "./services.ts";
import { DONE, formatEvent, orTimeout, SSE_HEADERS, sseBody } from "./sse.ts";

/** How long a stream holds back its headers for an error status. */
const HEADERS_WAIT_MS = 250;

export interface RespondOptions {
  readonly isStream: boolean;
  /** A last chunk with the usage was asked for. */
  readonly includesUsage: boolean;
}

/** @throws whatever failed the generation, as long as no byte of the answer is out. */
export async function respond(
  services: Services,
  exchange: Exchange,
  generation: Generation,
  answer: Answer,
  { isStream, includesUsage }: RespondOptions,
): Promise<Response> {
  const numbers = (): AnswerNumbers => answerNumbers(exchange.promptTokens ?? 0, generation.summary());
  if (!isStream) {
    const results = await collect(generation);
    return Response.json(answer.whole(results, numbers()));
  }
  const { keepAliveMs } = services.options;
  // A request that fails at once gets an error status. Then the stream opens and errors go into it: only a body that can be cancelled tells for
  // certain that the client has gone. (Deno fires a request's signal only when the whole request came in one piece.)
  await orTimeout(generation.firstNews, Math.min(keepAliveMs, HEADERS_WAIT_MS));
  if (generation.failure !== null) throw generation.failure.error;
  exchange.startStream();
  const leave = (): void => {
    const error = new ClientGoneError("The client went away");
    exchange.fail(error);
    generation.abort(error);
    exchange.end();
  };
  const texts = eventTexts(exchange, generation, answer, includesUsage ? numbers : null);
  return new Response(sseBody(texts, { keepAliveMs, onCancel: leave }), { headers: SSE_HEADERS });
}

/** The events of a stream. Ends in every case with exactly one `[DONE]`. */
async function* eventTexts(
  exchange: Exchange,
  generation: Generation,
  answer: Answer,
  numbers: (() => AnswerNumbers) | null,
): AsyncGenerator<string> {
  try {
    const opening = answer.opening();
    if (opening.length > 0) yield opening.map(formatEvent).join("");
    for await (const event of generation.events()) {
      const text = answer.chunks(event).map(formatEvent).join("");
      if (text !== "") yield text;
    }
    yield `${numbers === null ? "" : formatEvent(answer.usageChunk(numbers()))}${DONE}`;
  } catch (error) {
    exchange.fail(error);
    yield `${formatEvent(errorBody(toApiError(error)))}${DONE}`;
  } finally {
    exchange.end();
  }
}
