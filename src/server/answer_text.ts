/** An answer as text that its body takes bit by bit: events while they come, or one JSON object at the end. */
import { type Answer, answerNumbers } from "./answer.ts";
import { errorBody, toApiError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import { type Generation, takeResults } from "./generation.ts";
import { DONE, formatEvent } from "./sse.ts";
import type { TextSource } from "./streamed_body.ts";

/** What an answer looks like on its way. */
interface TextFormat {
  /** What has come since the last time. */
  readonly news: () => string;
  /** What follows when every choice has ended. */
  readonly ending: () => string;
  /** What follows when the answer stays in pieces. */
  readonly failure: (error: unknown) => string;
  /** The text itself does not show that it is no answer. */
  readonly isBrokenByFailure: boolean;
}

/** Server-sent events, with exactly one `[DONE]` in every case. */
export function eventStream(exchange: Exchange, generation: Generation, answer: Answer, includesUsage: boolean): TextSource {
  let opening = answer.opening();
  return new AnswerText(exchange, generation, {
    news: (): string => {
      let text = opening;
      opening = "";
      for (const event of generation.take()) text += answer.events(event);
      return text;
    },
    ending: () => (includesUsage ? answer.usageEvent(answerNumbers(exchange, generation)) : "") + DONE,
    failure: (error) => `${formatEvent(errorText(error))}${DONE}`,
    isBrokenByFailure: false,
  });
}

/** One JSON object. Its status is out before it, so a failure is an error object, after which the body is broken off. */
export function wholeJson(exchange: Exchange, generation: Generation, answer: Answer): TextSource {
  return new AnswerText(exchange, generation, {
    news: () => "",
    ending: () => wholeText(exchange, generation, answer),
    failure: errorText,
    isBrokenByFailure: true,
  });
}

/** The answer of a generation that has ended well. */
export function wholeText(exchange: Exchange, generation: Generation, answer: Answer): string {
  return answer.whole(takeResults(generation), answerNumbers(exchange, generation));
}

function errorText(error: unknown): string {
  return JSON.stringify(errorBody(toApiError(error)));
}

/** Ends the exchange together with the text. */
class AnswerText implements TextSource {
  isEnded = false;
  isBroken = false;

  constructor(readonly exchange: Exchange, readonly generation: Generation, readonly format: TextFormat) {}

  onNews(listener: () => void): void {
    this.generation.onNews(listener);
  }

  take(): string {
    if (this.isEnded) return "";
    try {
      return this.#takeNews();
    } catch (error) {
      this.generation.abort(error);
      return this.#fail(error);
    }
  }

  #takeNews(): string {
    const { generation, format } = this;
    const text = format.news();
    if (!generation.isEnded) return text;
    if (generation.failure !== null) return text + this.#fail(generation.failure.error);
    const whole = text + format.ending();
    this.isEnded = true;
    this.exchange.end();
    return whole;
  }

  #fail(error: unknown): string {
    this.isEnded = true;
    this.isBroken = this.format.isBrokenByFailure;
    this.exchange.fail(error);
    this.exchange.end();
    return this.format.failure(error);
  }
}
