/** Asks a server in this same process, over the protocol that every other client uses. */
import type { App } from "../../server/app.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** A part of an answer, as it comes. */
export interface AnswerPart {
  readonly text: string;
  /** Thoughts are shown and are no part of the conversation. */
  readonly isReasoning: boolean;
  readonly finishReason: string | null;
}

interface ChatChunk {
  readonly error?: { readonly message: string; readonly code?: string | null };
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null };
    readonly finish_reason?: string | null;
  }[];
}

export class ChatError extends Error {
  override name = "ChatError";

  /** @param code the server's, such as `context_length_exceeded`; null where it gave none. */
  constructor(message: string, readonly code: string | null = null) {
    super(message);
  }
}

/** How an answer is had; `signal` ends it. */
export type AskModel = (
  messages: readonly ChatMessage[],
  fields: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
) => AsyncIterable<AnswerPart>;

/** @throws {ChatError} with the server's own words, before the first part or in the middle. */
export function askApp(app: Pick<App, "fetch">): AskModel {
  return async function* (messages, fields, signal): AsyncGenerator<AnswerPart> {
    const request = new Request("http://localhost/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: toJson({ ...fields, messages, stream: true }),
      signal,
    });
    const response = await app.fetch(request);
    if (signal.aborted) return void await response.body?.cancel();
    if (!response.ok) throw chatError(((await response.json()) as ChatChunk).error ?? { message: `status ${response.status}` });
    for await (const chunk of chunksOf(response.body!, signal)) {
      if (chunk.error !== undefined) throw chatError(chunk.error);
      for (const { delta, finish_reason } of chunk.choices ?? []) {
        if (delta?.reasoning_content) yield { text: delta.reasoning_content, isReasoning: true, finishReason: null };
        const finishReason = finish_reason ?? null;
        if (delta?.content || finishReason !== null) yield { text: delta?.content ?? "", isReasoning: false, finishReason };
      }
    }
  };
}

function chatError({ message, code = null }: NonNullable<ChatChunk["error"]>): ChatError {
  return new ChatError(message, code);
}

/** The events of a stream. Ends when it ends, or when `signal` fires: then the server is told that nobody reads on. */
async function* chunksOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<ChatChunk> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  const leave = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", leave);
  try {
    let rest = "";
    for (let part = await reader.read(); !part.done && !signal.aborted; part = await reader.read()) {
      const events = (rest + part.value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) if (event.startsWith("data: {")) yield JSON.parse(event.slice("data: ".length));
    }
  } finally {
    signal.removeEventListener("abort", leave);
    leave();
  }
}

/** Seeds may be larger than what JSON.stringify takes. */
function toJson(body: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(body).map(([name, value]) =>
    `${JSON.stringify(name)}:${typeof value === "bigint" ? value : JSON.stringify(value)}`
  );
  return `{${entries.join(",")}}`;
}
