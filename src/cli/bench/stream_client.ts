/** One streamed chat completion, timed from outside as a client sees it. */
import { TextLineStream } from "../../hub/text_lines.ts";

export interface BenchServer {
  readonly name: string;
  /** Without `/v1`. */
  readonly url: string;
  /** What the requests say under `model`. */
  readonly model: string;
}

export interface StreamTiming {
  readonly ttftMs: number;
  readonly totalMs: number;
  readonly numTokens: number;
  /** When each piece of text came, in milliseconds after the request was sent. */
  readonly arrivalsMs: readonly number[];
}

export interface StreamOptions {
  /** Leaves the request: it fails with the signal's reason. */
  readonly signal?: AbortSignal | null;
  readonly onFirstText?: () => void;
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly error?: unknown;
}

/**
 * Sends `body` and reads the stream to its end. Tokens are those of the usage chunk, or the number of deltas where a server sends none.
 * @throws {Error} for an error status, an error event, and a stream without a token.
 */
export async function timeStream(
  server: BenchServer,
  body: Readonly<Record<string, unknown>>,
  { signal = null, onFirstText }: StreamOptions = {},
): Promise<StreamTiming> {
  const startedMs = performance.now();
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: server.model, stream: true, stream_options: { include_usage: true }, ...body }),
    signal,
  });
  if (!response.ok || response.body === null) throw new Error(`${server.name} answered ${response.status}: ${await response.text()}`);
  const arrivalsMs: number[] = [];
  let numUsageTokens = 0;
  for await (const chunk of chunksOf(response.body)) {
    if (chunk.error !== undefined) throw new Error(`${server.name} sent an error: ${JSON.stringify(chunk.error)}`);
    if (chunk.choices?.[0]?.delta?.content) {
      if (arrivalsMs.push(performance.now() - startedMs) === 1) onFirstText?.();
    }
    numUsageTokens = chunk.usage?.completion_tokens ?? numUsageTokens;
  }
  const [ttftMs] = arrivalsMs;
  if (ttftMs === undefined) throw new Error(`${server.name} sent a stream without a token`);
  return { ttftMs, totalMs: performance.now() - startedMs, numTokens: numUsageTokens || arrivalsMs.length, arrivalsMs };
}

/** Servers of this protocol write every event as one `data:` line. */
async function* chunksOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Chunk> {
  for await (const line of body.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice("data:".length).trim();
    if (data !== "[DONE]") yield JSON.parse(data);
  }
}
