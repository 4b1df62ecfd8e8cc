/** Requests that differ in everything, for tests that compare what they get under different conditions. */
import { assertEquals } from "@std/assert";
import type { Json, RealServer } from "./real_server.ts";

const PASSAGE =
  "The harbour of Eastmere lies between two stone piers. In summer the fishing boats leave before dawn and return at noon, when the " +
  "market on the quay opens. In winter the boats stay in the harbour, and the old sailors mend their nets at the Anchor inn.";
const REPEAT = `Repeat this text word for word:\n\n${PASSAGE}`;

/** Rows that differ in everything, with texts that invite prompt lookup and texts that do not, and lengths that end at different steps. */
export const ROWS: readonly (readonly [string, Record<string, unknown>])[] = [
  [REPEAT, { temperature: 0, max_tokens: 60, logprobs: true, top_logprobs: 2 }],
  [REPEAT, { temperature: 0.3, seed: 1, max_tokens: 52 }],
  [`Write the numbers one to nine, three times: 1 2 3 4 5 6 7 8 9 1 2 3`, { temperature: 0.7, seed: 2, max_tokens: 44, top_k: 40 }],
  ["Write a story about a lighthouse.", { temperature: 1, seed: 3, max_tokens: 36, min_p: 0.05, logprobs: true }],
  [REPEAT, { temperature: 0.5, seed: 4, max_tokens: 48, frequency_penalty: 0.4, repetition_penalty: 1.1 }],
  [REPEAT, { temperature: 0, max_tokens: 60, stop: ["noon", "quay"] }],
  ["Say yes ten times.", { temperature: 0, max_tokens: 40, dry_multiplier: 0.8, ignore_eos: true }],
  [REPEAT, { temperature: 0.7, seed: 5, max_tokens: 28, n: 2 }],
];

/** The answers to all rows, which come one after another. */
export async function askAll(server: RealServer, speculative: boolean | string): Promise<Json[]> {
  return await Promise.all(ROWS.map(async ([content, fields], i) => {
    // They come one after another, so that rows join rows that already draft.
    await new Promise((resolve) => setTimeout(resolve, 120 * i));
    const body = { messages: [{ role: "user", content }], return_token_ids: true, speculative, ...fields };
    const response = await server.post("/v1/chat/completions", body);
    const json: Json = await response.json();
    assertEquals(response.status, 200, JSON.stringify(json));
    return json;
  }));
}

/** What must not depend on who drafts. */
export function contents({ choices }: Json): unknown {
  return choices.map(({ message, finish_reason, token_ids, logprobs }: Json) => ({ message, finish_reason, token_ids, logprobs }));
}
