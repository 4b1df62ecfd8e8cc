import type { LoadedModel } from "../models/loaded_model.ts";

/** A first answer has to make sense from a very small model too; the protocol's own temperature, 1, is too hot for those. */
const CALM = { temperature: 0.3, top_p: 0.9 } as const;

/** A curl line that works with this model: a chat where it has a template, else a completion, of ids where it has no tokenizer. */
export function tryLine(url: string, model: Pick<LoadedModel, "tokenizer" | "chatTemplate">, isKeyNeeded: boolean): string {
  const [route, body] = requestFor(model);
  const key = isKeyNeeded ? ` -H "authorization: Bearer $ROWLOCK_KEY"` : "";
  return `curl ${url}${route} -H 'content-type: application/json'${key} -d '${JSON.stringify(body)}'`;
}

function requestFor(model: Pick<LoadedModel, "tokenizer" | "chatTemplate">): [string, Record<string, unknown>] {
  if (model.tokenizer === null) return ["/v1/completions", { prompt: [1, 2, 3], max_tokens: 16 }];
  if (model.chatTemplate === null) return ["/v1/completions", { prompt: "Once upon a time", ...CALM, max_tokens: 64 }];
  const messages = [{ role: "user", content: "Write one sentence about the sea." }];
  return ["/v1/chat/completions", { messages, ...CALM, max_tokens: 64 }];
}
