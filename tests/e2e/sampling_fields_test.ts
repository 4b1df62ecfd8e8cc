/** Every sampling field, over HTTP on the default model: what it changes can be seen, because the noise of equal seeds is equal. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { choiceSeed } from "../../src/server/seeds.ts";
import { type Answer, type Json, type RealServer, withRealServer } from "./real_server.ts";

const STORY = "Write a short story about a lighthouse.";
const SHORT = { max_tokens: 10, ignore_eos: true };
const HOT = { temperature: 2, seed: 21, ...SHORT };
const GREEDY = { temperature: 0, ...SHORT };

/** Sends the body as it is written, for numbers that JavaScript would round. */
async function chatRaw(server: RealServer, fields: string): Promise<Answer> {
  const body = `{"messages":[{"role":"user","content":"${STORY}"}],"max_tokens":10,"return_token_ids":true,${fields}}`;
  const response = await server.post("/v1/chat/completions", body);
  const json: Json = await response.json();
  assertEquals(response.status, 200, JSON.stringify(json));
  const [choice] = json.choices;
  return { text: choice.message.content, finishReason: choice.finish_reason, tokenIds: choice.token_ids, logprobs: [] };
}

/** Fields that leave one token make a hot row's answer the greedy one. */
const ONE_LEFT = [{ top_k: 1 }, { top_p: 0 }, { min_p: 1 }, { top_n_sigma: 1e-6 }, { min_p: 1, temperature_last: true }];

/** Each on top of a base with the same seed. */
const CHANGES: readonly (readonly [base: Record<string, unknown>, change: Record<string, unknown>])[] = [
  [HOT, { temperature: 1 }],
  [HOT, { seed: 22 }],
  [HOT, { top_k: 5 }],
  [HOT, { top_p: 0.5 }],
  [HOT, { min_p: 0.2 }],
  [HOT, { top_n_sigma: 1 }],
  [HOT, { p_less: true }],
  [HOT, { typical_p: 0.1 }],
  [{ ...HOT, min_p: 0.1 }, { temperature_last: true }],
  [{ ...HOT, temperature: 0.01 }, { xtc_probability: 1, xtc_threshold: 0.01 }],
  [GREEDY, { repetition_penalty: 3, repetition_context_size: -1 }],
  [GREEDY, { repeat_penalty: 3, repetition_context_size: -1 }],
  [{ ...GREEDY, max_tokens: 40 }, { presence_penalty: 2 }],
  [{ ...GREEDY, max_tokens: 40 }, { frequency_penalty: 2 }],
  [{ ...GREEDY, max_tokens: 40 }, { dry_multiplier: 10, dry_allowed_length: 0, dry_sequence_breakers: [] }],
];

Deno.test("every field that shapes the draw or penalizes changes the answer of its request", async () => {
  await withRealServer({}, async (server) => {
    const greedy = await server.chat(STORY, GREEDY);
    const ask = (fields: Record<string, unknown>): Promise<Answer> => server.chat(STORY, fields);
    for (const [i, answer] of (await Promise.all(ONE_LEFT.map((fields) => ask({ ...HOT, ...fields })))).entries()) {
      assertEquals(answer.text, greedy.text, JSON.stringify(ONE_LEFT[i]));
    }
    const pairs = await Promise.all(CHANGES.map(([base, change]) => Promise.all([ask(base), ask({ ...base, ...change })])));
    for (const [i, [before, after]] of pairs.entries()) {
      assertNotEquals(after.tokenIds, before.tokenIds, JSON.stringify(CHANGES[i]![1]));
    }
  });
});

Deno.test("bias, bans, allowed tokens and lengths hold for their own request", async () => {
  await withRealServer({}, async (server) => {
    const greedy = await server.chat(STORY, GREEDY);
    const [first = 0, second = 0] = greedy.tokenIds;
    const word = greedy.text.split(" ")[1] ?? "";
    const brief = "Answer with one word: is snow white?";
    const [unbiased, forced, banned, allowed, stopped, short, long] = await Promise.all([
      server.chat(STORY, { ...GREEDY, logit_bias: { [first]: -100 } }),
      server.chat(STORY, { ...GREEDY, logit_bias: { [second]: 100 } }),
      server.chat(STORY, { ...GREEDY, bad_words: [word] }),
      server.chat(STORY, { ...HOT, allowed_token_ids: [first, 500, 501] }),
      server.chat(STORY, { ...GREEDY, stop_token_ids: [greedy.tokenIds[4]] }),
      server.chat(brief, { temperature: 0, max_tokens: 60 }),
      server.chat(brief, { temperature: 0, max_tokens: 60, min_tokens: 50 }),
    ]);
    assertNotEquals(unbiased.tokenIds[0], first);
    assertEquals(new Set(forced.tokenIds), new Set([second]));
    assert(word.length > 1 && greedy.text.includes(word) && !banned.text.includes(word), `"${word}" in "${banned.text}"`);
    assert(allowed.tokenIds.every((id) => [first, 500, 501].includes(id)), allowed.tokenIds.join());
    assert(new Set(allowed.tokenIds).size > 1, allowed.tokenIds.join());
    assertEquals([stopped.finishReason, stopped.text], ["stop", (await server.chat(STORY, { ...GREEDY, max_tokens: 4 })).text]);
    assertEquals(short.finishReason, "stop");
    assert(short.tokenIds.length < 50 && long.tokenIds.length >= 50, `${short.tokenIds.length} and ${long.tokenIds.length} tokens`);
    assertEquals((await server.chat(brief, { temperature: 0, max_tokens: 60, ignore_eos: true })).finishReason, "length");
  });
});

Deno.test("the choices of n have distinct seeds, each of which gives its text again alone", async () => {
  await withRealServer({}, async (server) => {
    const choices = await server.chatAll(STORY, { ...HOT, temperature: 1, seed: 7, n: 4 });
    assertEquals(new Set(choices.map(({ text }) => text)).size, 4);
    for (const [i, choice] of choices.entries()) {
      const alone = await chatRaw(server, `"temperature":1,"ignore_eos":true,"seed":${choiceSeed(7n, i)}`);
      assertEquals(alone.tokenIds, choice.tokenIds);
    }
    const greedy = await server.chatAll(STORY, { ...GREEDY, n: 3 });
    assertEquals(new Set(greedy.map(({ text }) => text)).size, 1);
  });
});

Deno.test("seeds beyond 2^53 are exact, a missing seed is random, and every spelling of off is off", async () => {
  await withRealServer({}, async (server) => {
    const seeded = (seed: string): Promise<Answer> => chatRaw(server, `"temperature":1.5,"ignore_eos":true,"seed":${seed}`);
    const seeds = ["9007199254740992", "9007199254740993", "18446744073709551615", "18446744073709551614"];
    const texts = await Promise.all(seeds.map(seeded));
    assertEquals(new Set(texts.map(({ text }) => text)).size, seeds.length);
    assertEquals((await seeded("9007199254740993")).text, texts[1]!.text);
    assertEquals((await seeded("-2")).text, texts[3]!.text);
    const unseeded = await Promise.all(["null", "-1", "null"].map(seeded));
    assertEquals(new Set(unseeded.map(({ text }) => text)).size, 3);
    const plain = await server.chat(STORY, HOT);
    const off = [
      { top_k: -1 },
      { top_k: 0 },
      { top_p: 1 },
      { min_p: 0 },
      { typical_p: 1 },
      { top_n_sigma: -1 },
      { repetition_penalty: 1 },
      {
        presence_penalty: 0,
        frequency_penalty: 0,
        repetition_penalty: 0,
      },
      { xtc_probability: 0 },
      { dry_multiplier: 0 },
      { logit_bias: {} },
      { top_k: null, top_p: null, stop: null },
    ];
    for (const [i, answer] of (await Promise.all(off.map((fields) => server.chat(STORY, { ...HOT, ...fields })))).entries()) {
      assertEquals(answer.text, plain.text, JSON.stringify(off[i]));
    }
  });
});
