import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { FakeEngine, HELLO, type Json, testApp, VOCAB_SIZE } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

async function sampled(body: string | Record<string, unknown>, model: Partial<LoadedModel> = {}): Promise<SamplingConfig> {
  const engine = new FakeEngine();
  const sent = typeof body === "string" ? body : { ...HELLO, ...body };
  const response = await testApp(engine, {}, model).post(CHAT, sent);
  assertEquals(response.status, 200, await response.text());
  return engine.requests[0]!.sampling;
}

async function refused(body: Record<string, unknown>): Promise<Json> {
  const response = await testApp().post(CHAT, { ...HELLO, ...body });
  return { status: response.status, ...(await response.json()).error };
}

const DEFAULT: SamplingConfig = { ...GREEDY, temperature: 1, seed: 77n };

Deno.test("every spelling of off gives the configuration of a request that says nothing", async () => {
  const spellings = [
    {},
    { temperature: 1 },
    { top_k: -1 },
    { top_k: 0 },
    { top_k: VOCAB_SIZE },
    { top_k: 2 ** 63 },
    { top_p: 1 },
    { min_p: 0 },
    { typical_p: 1 },
    { typical_p: 0 },
    { top_n_sigma: 0 },
    { top_n_sigma: -1 },
    { seed: -1 },
    { seed: null },
    { repetition_penalty: 0 },
    { repetition_penalty: 1, repetition_context_size: 5 },
    { repetition_penalty: 1.5, repetition_context_size: 0 },
    { repeat_penalty: 1 },
    { presence_penalty: 0, frequency_penalty: -0 },
    { dry_multiplier: 0, dry_base: 2, dry_sequence_breakers: ["x"] },
    { dry_multiplier: 1, dry_base: 0 },
    { dry_multiplier: 1, dry_penalty_last_n: 0 },
    { xtc_probability: 0, xtc_threshold: 0.2 },
    { xtc_probability: 0.5, xtc_threshold: 0.9 },
    { logit_bias: {} },
    { logit_bias: { "5": 0 } },
    { bad_words: [] },
  ];
  for (const body of spellings) assertEquals(await sampled(body), DEFAULT, JSON.stringify(body));
});

Deno.test("every field reaches the row", async () => {
  const config = await sampled({
    temperature: 0.5,
    top_k: 40,
    top_p: 0,
    min_p: 0.1,
    seed: 9,
    top_n_sigma: 1.5,
    p_less: true,
    typical_p: 0.9,
    temperature_last: true,
    repetition_penalty: 1.1,
    repetition_context_size: -1,
    presence_penalty: -2,
    frequency_penalty: 2,
    dry_multiplier: 0.8,
    dry_base: 2,
    dry_allowed_length: 3,
    dry_penalty_last_n: 50,
    dry_sequence_breakers: [":"],
    xtc_probability: 0.5,
    xtc_threshold: 0.2,
    logit_bias: { "97": -100, "3": 1.5 },
    min_tokens: 4,
    ignore_eos: true,
    bad_words: ["no", " yes"],
    allowed_token_ids: [9, 7, 9],
    logprobs: true,
    top_logprobs: 20,
  });
  const word = (text: string): number[] => [...new TextEncoder().encode(text)];
  assertEquals(config, {
    temperature: 0.5,
    topK: 40,
    topP: 0,
    minP: 0.1,
    seed: 9n,
    topNSigma: 1.5,
    pLess: true,
    typicalP: 0.9,
    temperatureLast: true,
    repetitionPenalty: 1.1,
    repetitionContextSize: 256,
    presencePenalty: -2,
    frequencyPenalty: 2,
    dryMultiplier: 0.8,
    dryBase: 2,
    dryAllowedLength: 3,
    dryPenaltyLastN: 50,
    drySequenceBreakers: [[58], [260]],
    xtcProbability: 0.5,
    xtcThreshold: 0.2,
    logitBias: new Map([[97, -100], [3, 1.5]]),
    minTokens: 4,
    ignoreEos: true,
    badWords: [word("no"), word(" no"), word(" yes")],
    allowedTokenIds: [7, 9],
    numTopLogprobs: 20,
  });
  assert(Object.isFrozen(config));
});

Deno.test("greedy rows are all equal, whatever filters they name", async () => {
  for (const temperature of [0, 1e-320, 9e-6]) {
    assertEquals(await sampled({ temperature, top_k: 3, top_p: 0.5, min_p: 0.2, p_less: true, xtc_probability: 1 }), {
      ...GREEDY,
      seed: 77n,
    });
  }
});

Deno.test("numbers outside their domain are 422 with the parameter, the value and the range", async () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ temperature: -1 }, "from 0 to 100; found -1"],
    [{ temperature: 101 }, "from 0 to 100; found 101"],
    [{ top_p: 1.5 }, "from 0 to 1; found 1.5"],
    [{ min_p: -0.1 }, "from 0 to 1; found -0.1"],
    [{ top_k: -2 }, "at least -1; found -2"],
    [{ seed: 2 ** 70 }, "from -2^63 to 2^64-1; found 1.1805916207174113e+21"],
    [{ typical_p: 1.1 }, "from 0 to 1; found 1.1"],
    [{ top_n_sigma: -0.5 }, "from 0 to 1000 or -1; found -0.5"],
    [{ repetition_penalty: -1 }, "from 0.000001 to 100 or 0; found -1"],
    [{ presence_penalty: 2.5 }, "from -2 to 2; found 2.5"],
    [{ frequency_penalty: -3 }, "from -2 to 2; found -3"],
    [{ xtc_threshold: 2 }, "from 0 to 1; found 2"],
    [{ dry_base: 0.5 }, "from 1 to 100 or 0; found 0.5"],
    [{ n: 0 }, "from 1 to 16; found 0"],
    [{ n: 1e9 }, "from 1 to 16; found 1000000000"],
    [{ max_tokens: 0 }, "at least 1; found 0"],
    [{ max_tokens: -1 }, "at least 1; found -1"],
    [{ top_logprobs: 21, logprobs: true }, "from 0 to 20; found 21"],
    [{ logit_bias: { "999999": 1 } }, "from 0 to 263; found 999999"],
    [{ logit_bias: { "-1": 1 } }, "from 0 to 263; found -1"],
    [{ logit_bias: { "1": 1e308 } }, "from -100 to 100; found 1e+308"],
    [{ allowed_token_ids: [264] }, "from 0 to 263; found 264"],
    [{ allowed_token_ids: [] }, "at least 1 token id; found 0"],
    [{ stop_token_ids: [300] }, "from 0 to 263; found 300"],
    [{ min_tokens: 9, max_tokens: 8 }, "from 0 to max_tokens, 8; found 9"],
  ];
  for (const [body, expected] of cases) {
    const { status, param, message, code } = await refused(body);
    const name = Object.keys(body)[0]!;
    assertEquals([name, status, param, code], [name, 422, name, "out_of_range"]);
    assertStringIncludes(message, expected);
  }
});

Deno.test("values of another type are 400 with the parameter and the value", async () => {
  const cases: Record<string, unknown>[] = [
    { temperature: "1" },
    { temperature: true },
    { top_p: [] },
    { top_k: 1.5 },
    { seed: 1.5 },
    { seed: "7" },
    { n: "2" },
    { max_tokens: "5" },
    { max_tokens: 2.5 },
    { p_less: 1 },
    { stream: "yes" },
    { stop: 5 },
    { stop: [1, 2] },
    { stop: "" },
    { stop: [""] },
    { stop: Array.from({ length: 17 }, () => "a") },
    { logit_bias: { abc: 1 } },
    ...["01", "+1", " 1", "1 ", "1.0", "1e1", "-0", "-01", "", "0x1", "\u0661"].map((key) => ({ logit_bias: { [key]: 1 } })),
    { logit_bias: { "1": "x" } },
    { logit_bias: [1] },
    { bad_words: "a" },
    { bad_words: [""] },
    { allowed_token_ids: 5 },
    { logprobs: 2 },
    { top_logprobs: true, logprobs: true },
    { user: 5 },
    { stream_options: true },
  ];
  for (const body of cases) {
    const { status, param, type } = await refused(body);
    const name = Object.keys(body)[0]!;
    assertEquals([JSON.stringify(body), status, param, type], [JSON.stringify(body), 400, name, "invalid_request_error"]);
  }
});

Deno.test("a key of logit_bias that is no token id is told with the way to write one", async () => {
  for (const key of ["007", "abc", ""]) {
    const { message } = await refused({ logit_bias: { [key]: 1 } });
    assertEquals(message, `logit_bias: must have token ids as keys, in decimal digits without leading zeros; found "${key}"`);
  }
});

Deno.test("JSON's own numbers beyond double are out of range, and NaN is no JSON", async () => {
  const { post } = testApp();
  const raw = (field: string): string => `{"messages":[{"role":"user","content":"x"}],${field}}`;
  const cases: readonly (readonly [field: string, status: number])[] = [
    ['"temperature":1e400', 422],
    ['"temperature":NaN', 400],
    ['"logit_bias":{"1":NaN}', 400],
    ['"seed":1e400', 422],
    [`"seed":${"1".repeat(2 ** 20)}`, 422],
    ['"seed":18446744073709551616', 422],
    ['"seed":9007199254740992.5', 400],
  ];
  for (const [field, status] of cases) {
    const response = await post(CHAT, raw(field));
    assertEquals(response.status, status);
    await response.body?.cancel();
  }
});

Deno.test("seeds of 64 bits arrive exactly", async () => {
  const cases: [string, bigint][] = [
    ["9007199254740993", 9007199254740993n],
    ["18446744073709551615", 2n ** 64n - 1n],
    ["-9223372036854775808", 2n ** 63n],
    ["-9223372036854775807", 2n ** 63n + 1n],
    ["1e19", 10n ** 19n],
    ["7", 7n],
    ["-2", 2n ** 64n - 2n],
  ];
  for (const [text, expected] of cases) {
    assertEquals((await sampled(`{"messages":[{"role":"user","content":"x"}],"seed":${text}}`)).seed, expected);
  }
});

Deno.test("the model's own defaults fill what a request leaves out, and only valid ones count", async () => {
  const generationDefaults = { temperature: 0.6, top_p: 0.9, top_k: 20, repetition_penalty: 1.05, min_p: 7, pad_token_id: 3 };
  const filled = await sampled({ top_p: 0.5 }, { generationDefaults });
  assertEquals([filled.temperature, filled.topP, filled.topK, filled.repetitionPenalty, filled.minP], [0.6, 0.5, 20, 1.05, 0]);
  assertEquals((await sampled({ repeat_penalty: 1.3 }, { generationDefaults })).repetitionPenalty, 1.3);
  assertEquals((await sampled({}, { generationDefaults: { do_sample: false, temperature: 0.6 } })).temperature, 0);
  const model = await (await testApp(new FakeEngine(), {}, { generationDefaults }).get("/v1/models/test/tiny")).json();
  assertEquals(model.sampling_defaults, { temperature: 0.6, top_p: 0.9, top_k: 20, repetition_penalty: 1.05 });
});
