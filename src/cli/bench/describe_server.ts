import { UsageError } from "../flags.ts";
import type { BenchServer } from "./stream_client.ts";

/**
 * The server at `url`, written with or without `/v1`, and the first of its models.
 * @throws {UsageError} for what is no URL. {Error} for a server that cannot be reached, or that lists no models as OpenAI's protocol does.
 */
export async function describeServer(flag: string, url: string): Promise<BenchServer> {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new UsageError(`${flag} is "${url}", expected a URL such as http://127.0.0.1:8080`);
  }
  const base = url.replace(/\/+$/, "").replace(/\/v1$/, "");
  const response = await fetch(`${base}/v1/models`).catch((error: Error) => {
    throw new Error(`${flag}: no server answers at ${base} (${reasonOf(error)})`);
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${flag}: ${base}/v1/models answered ${response.status}: ${text.slice(0, 200)}`);
  const model = firstModel(text);
  if (model === null) {
    throw new Error(`${flag}: ${base}/v1/models has to list models as OpenAI's protocol does; found ${text.slice(0, 60)}`);
  }
  return { name: base, url: base, model };
}

function firstModel(text: string): string | null {
  try {
    const list: { readonly data: readonly { readonly id?: string }[] } = JSON.parse(text);
    return list.data[0]?.id ?? "default";
  } catch {
    return null;
  }
}

/** What the operating system says, which stands behind a chain of words about clients. */
function reasonOf(error: Error): string {
  const text = error.cause instanceof Error ? error.cause.message : error.message;
  return text.split(": ").at(-1)!.replace(/ \(os error \d+\)$/, "");
}
