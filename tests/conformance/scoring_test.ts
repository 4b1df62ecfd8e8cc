/** What lm-eval's local-completions sends: scored prompts, as ids, with one token wanted or none. */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { type Json, type RealServer, withRealServer } from "../e2e/real_server.ts";

const CONTEXT = "The capital of France is";
const CONTINUATION = " Paris";

async function complete(server: RealServer, body: Record<string, unknown>): Promise<Json> {
  const response = await server.post("/v1/completions", { model: "default", temperature: 0, seed: 1234, ...body });
  const json = await response.json();
  if (response.status !== 200) throw new Error(JSON.stringify(json));
  return json;
}

/** As lm-eval adds them up: the logprobs of the continuation, and whether each was the best. */
function score(logprobs: Json, numContext: number, numTokens: number): { readonly sum: number; readonly isGreedy: boolean } {
  let sum = 0;
  let isGreedy = true;
  for (let i = numContext; i < numTokens; i++) {
    sum += logprobs.token_logprobs[i];
    isGreedy &&= logprobs.tokens[i] === Object.entries<number>(logprobs.top_logprobs[i]).sort((a, b) => b[1] - a[1])[0]![0];
  }
  return { sum, isGreedy };
}

Deno.test("lists of ids are scored with echo, one token wanted or none, and the score is what generating reports", async () => {
  await withRealServer({}, async (server) => {
    const context = await server.tokenize(CONTEXT);
    const full = await server.tokenize(CONTEXT + CONTINUATION);
    const other = await server.tokenize(`${CONTEXT} a banana`);
    const request = { prompt: [full, other], logprobs: 1, echo: true };
    const [one, none] = [await complete(server, { ...request, max_tokens: 1 }), await complete(server, { ...request, max_tokens: 0 })];
    assertEquals([one, none].map(({ choices }) => choices.map(({ index }: Json) => index)), [[0, 1], [0, 1]]);
    const scores = none.choices.map((choice: Json, i: number) => score(choice.logprobs, context.length, [full, other][i]!.length));
    assert(scores[0].sum > scores[1].sum && scores[0].sum < 0, JSON.stringify(scores));
    for (const [i, ids] of [full, other].entries()) {
      const { tokens, token_logprobs, top_logprobs, text_offset } = none.choices[i].logprobs;
      assertEquals([tokens, token_logprobs, top_logprobs, text_offset].map((list) => list.length), Array(4).fill(ids.length));
      assertEquals([token_logprobs[0], top_logprobs[0], none.choices[i].finish_reason], [null, null, "length"]);
      assertEquals([none.choices[i].text, tokens.join("")], [tokens.join(""), none.choices[i].text]);
      assertEquals(one.choices[i].logprobs.tokens.length, ids.length + 1);
      one.choices[i].logprobs.token_logprobs.slice(1, ids.length).forEach((value: number, j: number) =>
        assertAlmostEquals(value, token_logprobs[j + 1], 1e-3)
      );
    }
    assertEquals([none.usage.completion_tokens, one.usage.completion_tokens], [0, 2]);
    const forced = await complete(server, { prompt: context, max_tokens: 1, logprobs: 1, allowed_token_ids: null });
    const best = Object.values<number>(forced.choices[0].logprobs.top_logprobs[0])[0]!;
    if (scores[0].isGreedy) assertAlmostEquals(scores[0].sum, best, 1e-3);
    else assert(scores[0].sum < best);
  });
});

Deno.test("a text prompt is scored like its ids, and one prompt of ids like a list of one", async () => {
  await withRealServer({}, async (server) => {
    const ids = await server.tokenize(CONTEXT);
    const bodies = [CONTEXT, [CONTEXT], ids, [ids]].map((prompt) => ({ prompt, echo: true, logprobs: 5, max_tokens: 0 }));
    const answers: Json[] = [];
    for (const body of bodies) answers.push((await complete(server, body)).choices);
    for (const answer of answers.slice(1)) assertEquals(answer, answers[0]);
    assertEquals([answers[0].length, answers[0][0].text], [1, CONTEXT]);
    assertEquals(answers[0][0].logprobs.top_logprobs.slice(1).every((top: Json) => Object.keys(top).length >= 5), true);
  });
});
