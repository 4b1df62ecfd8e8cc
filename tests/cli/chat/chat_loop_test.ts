import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type AnswerPart, askApp, ChatError, type ChatMessage } from "../../../src/cli/chat/chat_client.ts";
import { ChatLoop } from "../../../src/cli/chat/chat_loop.ts";
import { firstSettings, SETTING_NAMES, wantedValue } from "../../../src/cli/chat/chat_settings.ts";
import { type ChatTerminal, INTERRUPTED } from "../../../src/cli/chat/chat_terminal.ts";
import type { GenerateRequest } from "../../../src/engine/messages.ts";
import { FakeEngine, say, type Script, testApp, tick } from "../../server/fakes.ts";

type Input = string | typeof INTERRUPTED;

/** Plays what a person types; the input ends after the last. */
class ScriptedTerminal implements ChatTerminal {
  readonly isInteractive = false;
  onInterrupt: (() => void) | null = null;
  written = "";
  readonly prompts: string[] = [];
  readonly #inputs: Input[];

  constructor(...inputs: Input[]) {
    this.#inputs = inputs;
  }

  readLine(prompt: string): Promise<Input | null> {
    this.prompts.push(prompt);
    return Promise.resolve(this.#inputs.shift() ?? null);
  }

  write(text: string): void {
    this.written += text;
  }

  close(): void {}
}

interface Chat {
  readonly terminal: ScriptedTerminal;
  readonly engine: FakeEngine;
  readonly loop: ChatLoop;
}

/** A conversation that has run to its end. */
async function chat(
  inputs: Input[],
  script?: (request: GenerateRequest, index: number) => Script,
  system: string | null = null,
): Promise<Chat> {
  const terminal = new ScriptedTerminal(...inputs);
  const engine = new FakeEngine(script);
  const loop = new ChatLoop(terminal, askApp(testApp(engine).app), { system });
  await loop.run();
  return { terminal, engine, loop };
}

function promptOf({ promptIds }: GenerateRequest): string {
  return new TextDecoder().decode(Uint8Array.from([...promptIds].filter((id) => id < 256)));
}

Deno.test("answers stream to the terminal and the whole conversation goes to the model each time", async () => {
  const { terminal, engine, loop } = await chat(
    ["Hi", "", "More"],
    (_, index) => ({ tokens: say(["Hello!", "Yes?"][index]!) }),
    "Be short.",
  );
  assertEquals(terminal.written, "Hello!\nYes?\n");
  const expected: ChatMessage[] = [
    { role: "system", content: "Be short." },
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello!" },
    { role: "user", content: "More" },
    { role: "assistant", content: "Yes?" },
  ];
  assertEquals(loop.messages, expected);
  assertEquals(promptOf(engine.requests[1]!), "system\nBe short.\nuser\nHi\nassistant\nHello!\nuser\nMore\nassistant\n");
});

Deno.test("settings reach the engine, wrong ones say what is allowed, and unset ones are the model's again", async () => {
  const { terminal, engine } = await chat([
    "/set temperature 0.7",
    "/set seed 18446744073709551615",
    "/set max_tokens 3",
    '/set stop ["END", "x"]',
    "/set",
    "a",
    "/unset temperature",
    "/unset seed",
    "b",
    "/set temperature hot",
    "/set top_p 7",
    "/set messages []",
    "/set top_k",
  ]);
  const [first, second] = engine.requests;
  assertEquals([first!.sampling.temperature, first!.sampling.seed, first!.maxTokens], [0.7, 2n ** 64n - 1n, 3]);
  assertEquals([second!.sampling.temperature, second!.sampling.seed, second!.maxTokens], [1, 77n, 3]);
  const lines = terminal.written.split("\n");
  assertEquals(lines.slice(0, 4), ["temperature 0.7", "seed 18446744073709551615", "max_tokens 3", 'stop ["END","x"]']);
  assertEquals(lines.slice(4, 8), [
    "Hel",
    "(cut: max_tokens or the context's end was reached)",
    "Hel",
    "(cut: max_tokens or the context's end was reached)",
  ]);
  assertStringIncludes(lines[8]!, "temperature ");
  assertStringIncludes(lines[9]!, "top_p must be a number from 0 to 1; found 7");
  assertStringIncludes(lines[10]!, 'There is no setting "messages"; there are temperature,');
  assertEquals(lines[11], "/set top_k has no value; write /set top_k VALUE, where VALUE must be an integer of at least -1");
});

Deno.test("every command with a wrong value, or without one, says what is allowed and changes nothing", async () => {
  const range = "VALUE must be a number from 0 to 100";
  const cases: [string, string][] = [
    ["/seed 4", "There is no command /seed; there is /set seed VALUE, where VALUE must be an integer from -2^63 to 2^64-1"],
    ["/temperature", `There is no command /temperature; there is /set temperature VALUE, where ${range}`],
    ["/claer", "There is no command /claer; did you mean /clear?"],
    ["/dance", "There is no command /dance; /help shows all"],
    ["/", "There is no command /; /help shows all"],
    ["/set temperature=", `/set temperature= has no value; write /set temperature VALUE, where ${range}`],
    ["/set temperature=hot", 'temperature must be a number from 0 to 100; found "hot"'],
    ["/set sed=4", 'There is no setting "sed"; did you mean seed?'],
    ["/set sed 4", 'There is no setting "sed"; did you mean seed?'],
    ["/set sed", 'There is no setting "sed"; did you mean seed?'],
    ["/set seed 4.5", "seed must be an integer from -2^63 to 2^64-1; found 4.5"],
    ["/unset sed", 'There is no setting "sed"; did you mean seed?'],
    ["/unset", "/unset NAME needs a name; set now:\nNothing is set: the model's own settings count"],
    ["/clear all", '/clear takes nothing behind it and forgets the whole conversation; found "all"'],
  ];
  for (const [typed, answer] of cases) {
    const { terminal, loop } = await chat(["Hi", typed]);
    assertEquals([terminal.written, loop.messages.length, loop.settings.fields], [`Hello\n${answer}\n`, 2, {}]);
  }
});

Deno.test("a value stands behind its name, with or without an equals sign", async () => {
  const { terminal, loop } = await chat(["/set temperature=0.5", "/set top_p = 0.8", "/set stop a=b", '/set bad_words=["=", "x y"]']);
  assertEquals([terminal.written, loop.settings.fields], ["", { temperature: 0.5, top_p: 0.8, stop: "a=b", bad_words: ["=", "x y"] }]);
});

Deno.test("two names of one setting are one setting", async () => {
  const { engine, loop } = await chat(["/set repetition_penalty 1.1", "/set repeat_penalty 1.3", "Hi", "/unset repeat_penalty", "Ho"]);
  assertEquals(engine.requests.map(({ sampling }) => sampling.repetitionPenalty), [1.3, 1]);
  assertEquals(loop.settings.fields, {});
});

Deno.test("every setting says what it takes", () => {
  for (const name of SETTING_NAMES) assertMatch(wantedValue(name), new RegExp(`^/set ${name} VALUE, where VALUE must be [^;]+$`));
});

Deno.test("each word that ends a conversation ends it, whatever stands behind it", async () => {
  for (const typed of ["/bye", "/quit", "/exit", "/quit now", "/bye "]) {
    const { terminal, engine } = await chat([typed, "never"]);
    assertEquals([terminal.written, engine.requests.length], ["", 0]);
  }
});

Deno.test("a lone word that wants to end is answered with the command, and only that", async () => {
  const { terminal, engine } = await chat(["quit", "exit ", "Quit", "quit it", '"""quit"""']);
  const hints = ["quit", "exit"].map((word) => `/${word} ends; """${word}""" says it to the model\n`);
  assertEquals(terminal.written, `${hints.join("")}Hello\nHello\nHello\n`);
  const sent = engine.requests.map((request) => promptOf(request).split("\n").at(-3));
  assertEquals(sent, ["Quit", "quit it", "quit"]);
});

Deno.test("Ctrl-C stops the answer, keeps what came of it, and the conversation goes on", async () => {
  const terminal = new ScriptedTerminal("Hi", "And?");
  const engine = new FakeEngine((_, index) =>
    index === 0 ? { tokens: [...new TextEncoder().encode("Once")], isStalled: true } : { tokens: say("ok") }
  );
  const loop = new ChatLoop(terminal, askApp(testApp(engine).app), { system: null });
  const running = loop.run();
  while (!terminal.written.includes("Once")) await tick(1);
  terminal.onInterrupt!();
  await running;
  assertEquals(terminal.written, "Once\n(stopped)\nok\n");
  assertEquals(loop.messages.map(({ content }) => content), ["Hi", "Once", "And?", "ok"]);
  assertEquals([engine.cancelled.length, engine.numLive], [1, 0]);
});

Deno.test("Ctrl-C before the first token stops too, and the question is forgotten", async () => {
  const terminal = new ScriptedTerminal("Hi");
  const engine = new FakeEngine(() => ({ tokens: [], isStalled: true }));
  const loop = new ChatLoop(terminal, askApp(testApp(engine).app), { system: null });
  const running = loop.run();
  while (engine.requests.length === 0) await tick(1);
  terminal.onInterrupt!();
  await running;
  assertEquals([terminal.written, loop.messages, engine.numLive], ["\n(stopped)\n", [], 0]);
});

Deno.test("at the prompt a second Ctrl-C in a row ends, and so do /bye and the end of the input", async () => {
  const hint = "Ctrl-C again, or /bye, ends\n";
  const twice = await chat([INTERRUPTED, INTERRUPTED, "never"]);
  assertEquals([twice.terminal.written, twice.engine.requests.length], [hint, 0]);
  const between = await chat([INTERRUPTED, "Hi", INTERRUPTED, "/bye", "never"]);
  assertEquals([between.terminal.written, between.engine.requests.length], [`${hint}Hello\n${hint}`, 1]);
});

Deno.test("text between quotes is one message, whatever it looks like", async () => {
  const { terminal, loop } = await chat(['"""one', "/clear", '  three"""', '"""/bye"""', '"""', "last", '"""', '""" open', INTERRUPTED]);
  const sent = loop.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  assertEquals(sent, ["one\n/clear\n  three", "/bye", "last"]);
  assertEquals(terminal.prompts.slice(0, 4), [">>> ", "... ", "... ", ">>> "]);
});

Deno.test("/clear forgets the conversation but not the instructions, which /system changes", async () => {
  const { loop, terminal } = await chat(["Hi", "/clear", "/system Be kind.", "Ho", "/nonsense", "/help"], undefined, "Be short.");
  assertEquals(loop.messages.map(({ content }) => content), ["Be kind.", "Ho", "Hello"]);
  assertStringIncludes(terminal.written, "There is no command /nonsense; /help shows all\n");
  for (const name of ["/set", "/unset", "/system", "/clear", "/bye", '"""']) assertStringIncludes(terminal.written, name);
});

Deno.test("a conversation begins with calm settings where the model names none, and /help and /set show them", async () => {
  assertEquals(firstSettings({}), { temperature: 0.3, top_p: 0.9, repetition_penalty: 1.1 });
  assertEquals(firstSettings({ repetition_penalty: 1 }), { temperature: 0.3, top_p: 0.9 });
  for (const own of [{ temperature: 0.6 }, { top_p: 0.8 }, { do_sample: false }]) {
    assertEquals(firstSettings(own), { repetition_penalty: 1.1 });
    assertEquals(firstSettings({ ...own, repetition_penalty: 1.05 }), {});
  }
  const terminal = new ScriptedTerminal("/set", "/help", "Hi", "/unset temperature", "Ho");
  const engine = new FakeEngine();
  await new ChatLoop(terminal, askApp(testApp(engine).app), { system: null, settings: firstSettings({}) }).run();
  assertEquals(terminal.written.split("temperature 0.3\ntop_p 0.9\nrepetition_penalty 1.1\n").length, 3);
  const sent = engine.requests.map(({ sampling }) => [sampling.temperature, sampling.topP, sampling.repetitionPenalty]);
  assertEquals(sent, [[0.3, 0.9, 1.1], [1, 0.9, 1.1]]);
});

Deno.test("a full context says how to begin anew, and after that the conversation goes on", async () => {
  const long = "x".repeat(150);
  const { terminal, loop } = await chat([long, long, "/clear", "Hi"], (_, index) => ({ tokens: say(index === 0 ? "a".repeat(40) : "ok") }));
  const [, refused, why] = terminal.written.split("\n").filter((line) => line !== "");
  assertEquals(refused, "The conversation no longer fits the context; /clear begins a new conversation");
  assertMatch(why!, /^\(This model's context holds 256 tokens, prompt and answer together; found a prompt of \d+ tokens\)$/);
  assertEquals(loop.messages.map(({ content }) => content), ["Hi", "ok"]);
  const full = await chat(["Hi"], () => ({ tokens: [...new TextEncoder().encode("a".repeat(300))] }));
  assertStringIncludes(full.terminal.written, "(cut: the context is full; /clear begins a new conversation)");
});

Deno.test("a question that fails is said and forgotten, before the first token as in the middle", async () => {
  const { terminal, loop } = await chat(
    ["x".repeat(5000), "Hi", "Ho"],
    (_, index) => index === 0 ? { tokens: [72, 101], error: "row_broken" } : { tokens: say("ok") },
  );
  assertEquals(loop.messages.map(({ content }) => content), ["Ho", "ok"]);
  assertStringIncludes(terminal.written, "\nThe message does not fit the context\n(This model's context holds 256 tokens");
  assertStringIncludes(terminal.written, "\nThe engine says row_broken\n");
});

Deno.test("thoughts are shown and are no part of the conversation", async () => {
  const terminal = new ScriptedTerminal("Hi");
  const loop = new ChatLoop(terminal, async function* (): AsyncGenerator<AnswerPart> {
    yield { text: "hm ", isReasoning: true, finishReason: null };
    yield { text: "Yes", isReasoning: false, finishReason: "stop" };
  }, { system: null });
  await loop.run();
  assertEquals([terminal.written, loop.messages.at(-1)], ["hm Yes\n", { role: "assistant", content: "Yes" }]);
});

Deno.test("the server's own words reach the person", async () => {
  const { app } = testApp(new FakeEngine(), {}, { chatTemplate: null });
  const parts = askApp(app)([{ role: "user", content: "Hi" }], {}, new AbortController().signal);
  const error = await Array.fromAsync(parts).then(() => null, (reason: unknown) => reason);
  assertEquals(error instanceof ChatError, true);
  assertStringIncludes((error as ChatError).message, "has no chat template");
});
