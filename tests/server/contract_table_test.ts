/**
 * What clients send and other servers get wrong, one row a fault; `id` is the row of the contract (R: seen on peers, a number: a public report).
 * Rows with a test of their own elsewhere (stop strings, disconnects, logprobs in streams, draining, speculation, batches) are not repeated here.
 */
import { assert, assertEquals } from "@std/assert";
import { PEER_ROWS } from "./contract_peers.ts";
import { PUBLIC_ROWS } from "./contract_reports.ts";
import { CHAT, COMPLETIONS, type Row, send, stream } from "./contract_row.ts";
import { FakeEngine, say, testApp } from "./fakes.ts";

/** What the contract asks for of all streams, whatever the request. */
const STREAM_ROWS: readonly Row[] = ([["chat", CHAT, {}], ["a completion", COMPLETIONS, { prompt: "x" }]] as const).map((
  [name, path, fields],
): Row => ({
  id: "minimum contract 3, 5, 6",
  fault: `${name}: one id, time and model in all chunks, the reason last, one end, and the text of the whole answer`,
  tokens: say("Grüße 🎉"),
  check: async (app) => {
    const { events, text } = await stream(app, { ...fields, seed: 3 }, path);
    assertEquals(
      new Set(events.map(({ id, created, model, system_fingerprint }) => [id, created, model, system_fingerprint].join())).size,
      1,
    );
    const reasons = events.map((event) => event.choices[0].finish_reason);
    assertEquals([reasons.at(-1), reasons.slice(0, -1).every((reason) => reason === null)], ["stop", true]);
    assert(text.endsWith("\n\ndata: [DONE]\n\n") && text.split("[DONE]").length === 2);
    const { json } = await send(app, { ...fields, seed: 3 }, path);
    const pieces = events.map(({ choices: [choice] }) => choice.text ?? choice.delta.content ?? "");
    assertEquals(pieces.join(""), json.choices[0].text ?? json.choices[0].message.content);
  },
}));

for (const { id, fault, check, tokens } of [...PEER_ROWS, ...PUBLIC_ROWS, ...STREAM_ROWS]) {
  Deno.test(`${id}: ${fault}`, () => check(testApp(new FakeEngine(() => ({ tokens: tokens ?? say("Hello") })))));
}
