/** The default model over HTTP: with drafts every request gets the answer that it gets without, to the last bit of its logprobs. */
import { assert, assertEquals } from "@std/assert";
import { askAll, contents, ROWS } from "./mixed_rows.ts";
import { withRealServer } from "./real_server.ts";

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
