import { assert, assertEquals } from "@std/assert";
import type { DraftKind, DraftRound, RowUpdate } from "../../src/engine/messages.ts";
import { FakeEngine, HELLO, type Json, say, type TestApp, testApp } from "./fakes.ts";

/** An engine with drafters, whose every update is a round of three drafts with two right ones. */
class DraftingEngine extends FakeEngine {
  override readonly facts = { ...new FakeEngine().facts, draftKinds: ["mtp", "ngram"] as DraftKind[] };

  protected override changed(update: RowUpdate, index: number): RowUpdate {
    const round: DraftRound = { numDrafts: 3, numAccepted: 2 };
    return this.requests[index]!.draftKind === "none" ? update : { ...update, round };
  }
}

function draftingApp(): TestApp {
  return testApp(new DraftingEngine(() => ({ tokens: say("Hello you"), tokensPerStep: 5 })));
}

async function askJson(app: TestApp, fields: Record<string, unknown>): Promise<Json> {
  return await (await app.post("/v1/chat/completions", { ...HELLO, ...fields })).json();
}

Deno.test("usage and timings tell how drafting went, over all choices", async () => {
  const app = draftingApp();
  const { usage, timings } = await askJson(app, {});
  assertEquals(usage.completion_tokens_details, { accepted_prediction_tokens: 4, rejected_prediction_tokens: 2 });
  assertEquals([timings.draft_n, timings.draft_n_accepted, timings.draft_rounds], [6, 4, 2]);
  assertEquals((await askJson(app, { n: 3 })).timings.draft_rounds, 6);
  assertEquals((await askJson(app, { speculative: false })).usage.completion_tokens_details.accepted_prediction_tokens, 0);
});

Deno.test("the metrics count every round", async () => {
  const app = draftingApp();
  await askJson(app, { n: 2 });
  const page = await (await app.get("/metrics")).text();
  for (
    const line of [
      'rowlock_draft_tokens_total{outcome="accepted"} 8',
      'rowlock_draft_tokens_total{outcome="rejected"} 4',
      'rowlock_draft_round_tokens_bucket{le="2"} 0',
      'rowlock_draft_round_tokens_bucket{le="3"} 4',
      'rowlock_draft_round_accepted_tokens_bucket{le="2"} 4',
      "rowlock_draft_round_accepted_tokens_sum 8",
    ]
  ) assert(page.includes(line), `${line} is not in\n${page}`);
});

Deno.test("the metrics count the failures of drafters", async () => {
  const app = draftingApp();
  const line = /^rowlock_draft_failures_total (\d+)$/m;
  const count = async (): Promise<string | undefined> => line.exec(await (await app.get("/metrics")).text())?.[1];
  assertEquals(await count(), "0");
  app.engine.step({ draftFailures: { count: 3, message: "No memory" } });
  assertEquals(await count(), "3");
});

Deno.test("a request's wish reaches the engine: nobody, the engine's choice, or a kind that is loaded", async () => {
  const app = draftingApp();
  for (const speculative of [false, true, null, "ngram", "mtp"]) await askJson(app, { speculative });
  await askJson(app, {});
  assertEquals(app.engine.requests.map(({ draftKind }) => draftKind), ["none", undefined, undefined, "ngram", "mtp", undefined]);
});

Deno.test("a kind that is not loaded, and one that does not exist, are refused with what is allowed", async () => {
  const app = draftingApp();
  const { error } = await askJson(app, { speculative: "eagle3" });
  assertEquals([error.param, error.message.includes("true, false, mtp, ngram"), error.message.includes('found "eagle3"')], [
    "speculative",
    true,
    true,
  ]);
  const unknown = await askJson(app, { speculative: "psychic" });
  assertEquals(unknown.error.param, "speculative");
  assert(unknown.error.message.includes("ngram, mtp, eagle3, dflash"), unknown.error.message);
  assertEquals(app.engine.requests.length, 0);
});

Deno.test("an engine without drafters says nothing about drafts, and takes requests that allow them", async () => {
  const app = testApp();
  const { usage, timings } = await askJson(app, { speculative: true });
  assertEquals([usage.completion_tokens_details, timings.draft_n], [undefined, undefined]);
  assertEquals((await app.post("/v1/chat/completions", { ...HELLO, speculative: "ngram" })).status, 400);
});
