import { assertEquals } from "@std/assert";
import { EOS, FakeEngine, HELLO, type Json, say, testApp } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

async function answer(tokens: readonly number[], body: Record<string, unknown>): Promise<Json> {
  const { post } = testApp(new FakeEngine(() => ({ tokens })));
  const response = await post(CHAT, { ...HELLO, ...body });
  return { status: response.status, ...await response.json() };
}

Deno.test("content parts are joined, developer is system, and a last assistant message is continued", async () => {
  const { post } = testApp();
  const body = {
    messages: [
      { role: "developer", content: "S" },
      { role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] },
      { role: "assistant", content: null, tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "not json" } }] },
      { role: "tool", tool_call_id: "unknown", content: "t" },
      { role: "assistant", content: [{ type: "text", text: "Su" }, { type: "text", text: "re" }] },
    ],
  };
  const { prompt } = await (await post("/apply-template", body)).json();
  assertEquals(
    prompt,
    "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\nt<|im_end|>\n<|im_start|>assistant\nSure",
  );
});

Deno.test("special-token text of a user is data", async () => {
  const engine = new FakeEngine();
  await testApp(engine).post(CHAT, { messages: [{ role: "user", content: "<|im_end|>" }] });
  assertEquals([...engine.requests[0]!.promptIds].filter((id) => id === EOS).length, 1);
});

Deno.test("null means absent for every optional field", async () => {
  const engine = new FakeEngine();
  const { post } = testApp(engine);
  await post(CHAT, HELLO);
  const names =
    "temperature top_p top_k min_p seed n stop stream stream_options max_tokens max_completion_tokens logprobs top_logprobs logit_bias " +
    "user presence_penalty frequency_penalty repetition_penalty tools tool_choice response_format modalities functions model bad_words";
  const response = await post(CHAT, { ...HELLO, ...Object.fromEntries(names.split(" ").map((name) => [name, null])) });
  assertEquals(response.status, 200);
  assertEquals(engine.requests[1]!.sampling, engine.requests[0]!.sampling);
});

Deno.test("unknown fields are ignored and unsupported ones are refused by name", async () => {
  assertEquals(
    (await answer(say("a"), { frobnicate: 1, metadata: { a: "b" }, tools: [], tool_choice: "none", response_format: { type: "text" } }))
      .status,
    200,
  );
  const refused = {
    tools: [{ type: "function", function: { name: "f" } }],
    tool_choice: "required",
    response_format: { type: "json_schema", json_schema: {} },
    audio: { voice: "x" },
    modalities: ["text", "audio"],
    functions: [{ name: "f" }],
    best_of: 2,
    chat_template: "{{ 1 }}",
    guided_json: {},
    reasoning_effort: "high",
  };
  for (const [name, value] of Object.entries(refused)) {
    const { status, error } = await answer(say("a"), { [name]: value });
    assertEquals([status, error.param, error.code], [400, name, "unsupported_parameter"]);
  }
});

Deno.test("template variables pass, but for those that would replace the template's inputs", async () => {
  assertEquals((await answer(say("a"), { chat_template_kwargs: { enable_thinking: false } })).status, 200);
  for (const name of ["chat_template", "messages", "tools", "tokenize", "add_generation_prompt"]) {
    const { status, error } = await answer(say("a"), { chat_template_kwargs: { [name]: 1 } });
    assertEquals([status, error.param], [400, "chat_template_kwargs"]);
  }
});

Deno.test("the model is the loaded one, default or absent, and everything else is not found", async () => {
  for (const model of ["test/tiny", "default", "", undefined]) assertEquals((await answer(say("a"), { model })).status, 200);
  for (const model of ["gpt-4", "../../etc/passwd", "/etc", " "]) {
    const { status, error } = await answer(say("a"), { model });
    assertEquals([status, error.code, error.param], [404, "model_not_found", "model"]);
  }
});

Deno.test("a model without a template refuses chats, one without a tokenizer too", async () => {
  for (const model of [{ chatTemplate: null }, { tokenizer: null }]) {
    const response = await testApp(new FakeEngine(), {}, model).post(CHAT, HELLO);
    assertEquals([response.status, (await response.json()).error.param], [400, "messages"]);
  }
});
