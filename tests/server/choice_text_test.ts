import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { type ChoiceDelta, ChoiceText } from "../../src/server/choice_text.ts";
import { ByteTokenizer, EOS, logprobOf } from "./fakes.ts";

function emptyDelta(): ChoiceDelta {
  return { text: "", tokens: [], stopToken: null, finishReason: null };
}

/** All deltas of `tokens` that come in steps of the given sizes. */
function run(tokens: readonly number[], stepSizes: readonly number[], stop: readonly string[]): ChoiceDelta[] {
  const text = new ChoiceText(new ByteTokenizer(), { stop, isContinuation: true });
  const deltas: ChoiceDelta[] = [];
  let start = 0;
  for (let step = 0; start < tokens.length; step++) {
    const part = tokens.slice(start, start + stepSizes[step % stepSizes.length]!);
    start += part.length;
    const finishReason = start < tokens.length ? null : part.at(-1) === EOS ? "stop" : "length";
    const delta = emptyDelta();
    text.push({ id: "x", tokens: part, logprobs: part.map((id) => logprobOf(id, 0)), finishReason }, delta);
    deltas.push(delta);
    if (deltas.at(-1)!.finishReason !== null) break;
  }
  return deltas;
}

const textOf = (deltas: readonly ChoiceDelta[]): string => deltas.map(({ text }) => text).join("");
const tokensOf = (deltas: readonly ChoiceDelta[]): unknown[] => deltas.flatMap(({ tokens }) => tokens);

/** What the text has to be, by looking at the whole of it: it ends before the stop string that is complete first. */
function expectedText(whole: string, stop: readonly string[]): string {
  const found = stop.map((text) => ({ start: whole.indexOf(text), length: text.length })).filter(({ start }) => start >= 0);
  found.sort((a, b) => a.start + a.length - (b.start + b.length) || b.length - a.length);
  return found.length === 0 ? whole : whole.slice(0, found[0]!.start);
}

const letters = fc.string({ unit: fc.constantFrom("a", "b", "é", "🎉", " "), maxLength: 24 });
const stops = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "é", "🎉"), minLength: 1, maxLength: 4 }), { maxLength: 3 });
const steps = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 6 });

Deno.test("whatever the steps, text and tokens of an answer are the same and the text ends before the first stop string", () => {
  fc.assert(fc.property(letters, stops, steps, (said, stop, stepSizes) => {
    const tokens = [...new TextEncoder().encode(said), EOS];
    const stepped = run(tokens, stepSizes, stop);
    const whole = run(tokens, [tokens.length], stop);
    assertEquals(textOf(stepped), expectedText(said, stop));
    assertEquals(textOf(whole), textOf(stepped));
    assertEquals(tokensOf(whole), tokensOf(stepped));
    assertEquals(stepped.at(-1)!.finishReason, "stop");
  }));
});

Deno.test("the bytes of the tokens are the text, cut or not", () => {
  fc.assert(fc.property(letters, stops, steps, (said, stop, stepSizes) => {
    const deltas = run([...new TextEncoder().encode(said), EOS], stepSizes, stop);
    const ids = deltas.flatMap(({ tokens }) => tokens.map(({ id }) => id));
    assertEquals(new TextDecoder().decode(Uint8Array.from(ids)), textOf(deltas));
  }));
});

Deno.test("no delta gives away what a later one could take back, and none holds more than a stop string's beginning", () => {
  fc.assert(fc.property(letters, stops, (said, stop) => {
    const final = expectedText(said, stop);
    const longest = Math.max(0, ...stop.map((text) => text.length - 1));
    let given = "";
    let numDecoded = 0;
    for (const delta of run([...new TextEncoder().encode(said), EOS], [1], stop)) {
      given += delta.text;
      numDecoded++;
      assertEquals(final.startsWith(given), true);
      const decoded = new TextDecoder().decode(new TextEncoder().encode(said).slice(0, numDecoded)).replace(/\ufffd+$/, "");
      if (delta.finishReason === null) assertEquals(decoded.length - given.length <= longest, true);
    }
    assertEquals(given, final);
  }));
});

Deno.test("tokens past a stop string are not counted", () => {
  const text = new ChoiceText(new ByteTokenizer(), { stop: ["b"], isContinuation: true });
  text.push({ id: "x", tokens: [97, 98, 99, 100, EOS], logprobs: [], finishReason: "stop" }, emptyDelta());
  assertEquals(text.numTokens, 2);
});

Deno.test("a stop string that nothing of the text begins changes no delta", () => {
  const tokens = fc.array(fc.oneof(fc.integer({ min: 0, max: 0xff }).filter((id) => id !== 1), fc.constantFrom(259, 260, 261)));
  fc.assert(fc.property(tokens, steps, (said, stepSizes) => {
    assertEquals(run([...said, EOS], stepSizes, []), run([...said, EOS], stepSizes, ["\u0001"]));
  }));
});

Deno.test("updates that nobody has taken meanwhile are one delta", () => {
  fc.assert(fc.property(letters, stops, (said, stop) => {
    const tokens = [...new TextEncoder().encode(said), EOS];
    const text = new ChoiceText(new ByteTokenizer(), { stop, isContinuation: true });
    const merged = emptyDelta();
    for (const [i, id] of tokens.entries()) {
      if (merged.finishReason !== null) break;
      const finishReason = i === tokens.length - 1 ? "stop" : null;
      text.push({ id: "x", tokens: [id], logprobs: [logprobOf(id, 0)], finishReason }, merged);
    }
    assertEquals([merged], run(tokens, [tokens.length], stop));
  }));
});
