/** The default model over HTTP: with drafts every request gets the answer that it gets without, to the last bit of its logprobs. */
import { assert, assertEquals } from "@std/assert";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";

const PASSAGE =
  "The harbour of Eastmere lies between two stone piers. In summer the fishing boats leave before dawn and return at noon, when the " +
  "market on the quay opens. In winter the boats stay in the harbour, and the old sailors mend their nets at the Anchor inn.";
const REPEAT = `Repeat this text word for word:\n\n${PASSAGE}`;

/** Rows that differ in everything, with texts that invite prompt lookup and texts that do not, and lengths that end at different steps. */
const ROWS: readonly (readonly [string, Record<string, unknown>])[] = [
  [REPEAT, { temperature: 0, max_tokens: 60, logprobs: true, top_logprobs: 2 }],
  [REPEAT, { temperature: 0.3, seed: 1, max_tokens: 52 }],
  [`Write the numbers one to nine, three times: 1 2 3 4 5 6 7 8 9 1 2 3`, { temperature: 0.7, seed: 2, max_tokens: 44, top_k: 40 }],
  ["Write a story about a lighthouse.", { temperature: 1, seed: 3, max_tokens: 36, min_p: 0.05, logprobs: true }],
  [REPEAT, { temperature: 0.5, seed: 4, max_tokens: 48, frequency_penalty: 0.4, repetition_penalty: 1.1 }],
  [REPEAT, { temperature: 0, max_tokens: 60, stop: ["noon", "quay"] }],
  ["Say yes ten times.", { temperature: 0, max_tokens: 40, dry_multiplier: 0.8, ignore_eos: true }],
  [REPEAT, { temperature: 0.7, seed: 5, max_tokens: 28, n: 2 }],
];

async function askAll(server: RealServer, speculative: boolean): Promise<Json[]> {
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

function contents({ choices }: Json): unknown {
  return choices.map(({ message, finish_reason, token_ids, logprobs }: Json) => ({ message, finish_reason, token_ids, logprobs }));
}

Deno.test("mixed requests that draft together get the answers that they get without drafts", async () => {
  // Prompts computed in one step with other rows may change last bits with or without drafts; this takes that out of the comparison.
  await withRealServer({ maxBatch: 12, isBatchInvariant: true, speculation: { isAdaptive: false, maxDrafts: 4 } }, async (server) => {
    const plain = await askAll(server, false);
    const drafted = await askAll(server, true);
    for (const [i, answer] of drafted.entries()) assertEquals(contents(answer), contents(plain[i]), JSON.stringify(ROWS[i]));
    for (const { usage, timings } of plain) {
      assertEquals(usage.completion_tokens_details, { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 });
      assertEquals([timings.draft_n, timings.draft_rounds], [0, 0]);
    }
    const [{ usage, timings }] = drafted;
    assert(timings.draft_n_accepted > 15, `${timings.draft_n_accepted} of ${timings.draft_n} drafts accepted for a text to repeat`);
    assertEquals(usage.completion_tokens_details.accepted_prediction_tokens, timings.draft_n_accepted);
    assertEquals(usage.completion_tokens_details.rejected_prediction_tokens, timings.draft_n - timings.draft_n_accepted);
    assert(timings.draft_rounds < usage.completion_tokens, "More rounds than tokens");
    const page = await (await fetch(`${server.url}/metrics`)).text();
    const accepted = Number(/^rowlock_draft_tokens_total\{outcome="accepted"\} (\d+)$/m.exec(page)?.[1]);
    assertEquals(accepted, drafted.reduce((sum, answer) => sum + answer.timings.draft_n_accepted, 0));
    assert(/^rowlock_draft_round_accepted_tokens_count [1-9]/m.test(page), page);
  });
});

Deno.test("a request names who drafts for it, and a kind that is not loaded is refused by name", async () => {
  await withRealServer({ speculation: {} }, async (server) => {
    const ask = (speculative: unknown): Promise<Response> =>
      server.post("/v1/chat/completions", { messages: [{ role: "user", content: "Hi" }], max_tokens: 2, speculative });
    for (const accepted of [true, false, null, "ngram"]) assertEquals((await ask(accepted).then((r) => r.json())).error, undefined);
    const refused = await ask("mtp");
    assertEquals(refused.status, 400);
    const { error } = await refused.json();
    assertEquals([error.param, error.message.includes("true, false, ngram"), error.message.includes('found "mtp"')], [
      "speculative",
      true,
      true,
    ]);
    assertEquals((await ask("psychic")).status, 400);
  });
});
