import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type StopMatch, StopStrings } from "../../src/tokenizer/stop_strings.ts";

/** The first stop string to be complete, the longest of those at the same place, by looking at the whole text. */
function search(text: string, stops: readonly string[]): StopMatch | null {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) return { stop: found, index: end - found.length };
  }
  return null;
}

/** The longest tail that begins a stop string. */
function longestOpenTail(text: string, stops: readonly string[]): number {
  for (let length = text.length; length > 0; length--) {
    if (stops.some((stop) => stop.length > length && stop.startsWith(text.slice(-length)))) return length;
  }
  return 0;
}

const letters = fc.constantFrom("a", "b", "🙂", "🙃");
const pieces = fc.array(fc.string({ unit: letters, maxLength: 5 }), { maxLength: 12 });
const stopStrings = fc.array(fc.string({ unit: letters, minLength: 1, maxLength: 5 }), { maxLength: 16 });

Deno.test("A stop string is found like in the whole text, however the text is cut", () => {
  fc.assert(
    fc.property(pieces, stopStrings, (parts, stops) => {
      const matcher = new StopStrings(stops);
      const given = parts.map((part) => matcher.push(part).text).join("") + matcher.flush();
      const text = parts.join("");
      const wanted = search(text, stops);
      assertEquals(matcher.match, wanted);
      assertEquals(given, wanted === null ? text : text.slice(0, wanted.index));
    }),
    { numRuns: 2000 },
  );
});

Deno.test("No more is held back than the longest tail that may become a stop string, and no less", () => {
  fc.assert(
    fc.property(pieces, stopStrings, (parts, stops) => {
      const matcher = new StopStrings(stops);
      let text = "";
      let given = "";
      for (const part of parts) {
        text += part;
        given += matcher.push(part).text;
        if (matcher.match !== null) return;
        assertEquals(given.length, text.length - longestOpenTail(text, stops));
      }
    }),
    { numRuns: 2000 },
  );
});

Deno.test("The step that completes a stop string tells it, and nothing comes after", () => {
  const matcher = new StopStrings(["END", "\n\n"]);
  assertEquals(matcher.push("one E"), { text: "one ", match: null });
  assertEquals(matcher.push("NDtwo"), { text: "", match: { stop: "END", index: 4 } });
  assertEquals(matcher.push("three"), { text: "", match: { stop: "END", index: 4 } });
  assertEquals(matcher.flush(), "");
});

Deno.test("Half a surrogate pair never matches", () => {
  const matcher = new StopStrings(["\ud83d"]);
  assertEquals(matcher.push("🙂").text + matcher.flush(), "🙂");
  assertEquals(matcher.match, null);
});

Deno.test("Without stop strings everything comes through at once", () => {
  assertEquals(new StopStrings([]).push("text"), { text: "text", match: null });
});

Deno.test("Empty stop strings and more than sixteen are refused", () => {
  assertThrows(() => new StopStrings(["a", ""]), RangeError, "empty");
  assertThrows(() => new StopStrings(Array.from({ length: 17 }, (_, i) => `s${i}`)), RangeError, "17 stop strings, at most 16");
});

Deno.test("A long stop string that almost repeats itself costs linear time", () => {
  const matcher = new StopStrings([`${"a".repeat(5000)}b`]);
  const startMs = performance.now();
  const { text } = matcher.push("a".repeat(500_000));
  assertEquals(text.length, 495_000);
  assert(performance.now() - startMs < 5000);
});
