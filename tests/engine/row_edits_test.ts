import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { EditTable } from "../../src/engine/edit_table.ts";
import { RowEdits } from "../../src/engine/row_edits.ts";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import { EDIT_WORDS, StructArray } from "../../src/native/structs.ts";

type Edit = { bias: number; repetition: number; subtract: number };

/** A row's edits after `generated`, by token; fails when a token has two. */
function editsAfter(overrides: Partial<SamplingConfig>, prompt: number[], generated: number[], stopIds: number[] = []): Map<number, Edit> {
  const edits = RowEdits.create({ ...GREEDY, ...overrides }, stopIds, Int32Array.from(prompt));
  const target = new StructArray(EDIT_WORDS);
  const tokens = Int32Array.from([...prompt, ...generated]);
  for (let length = prompt.length + 1; length <= tokens.length; length++) edits?.accept(tokens, length);
  const end = edits?.writeTo(target, 2, tokens, tokens.length, generated.length, new EditTable()) ?? 2;
  return decode(target, 2, end);
}

function decode(structs: StructArray, begin: number, end: number): Map<number, Edit> {
  const found = new Map<number, Edit>();
  for (let i = begin; i < end; i++) {
    const at = i * EDIT_WORDS;
    const [bias = 0, repetition = 0, subtract = 0] = structs.float32.subarray(at + 1, at + 4);
    const token = structs.int32[at] ?? -1;
    if (found.has(token)) throw new Error(`Token ${token} has two edits`);
    found.set(token, { bias, repetition, subtract });
  }
  return found;
}

/** The definitions, computed from scratch from the whole history. */
function expectedEdits(config: SamplingConfig, prompt: number[], generated: number[], stopIds: number[]): Map<number, Edit> {
  const edits = new Map<number, Edit>();
  const edit = (token: number): Edit => {
    const known = edits.get(token) ?? { bias: 0, repetition: 1, subtract: 0 };
    edits.set(token, known);
    return known;
  };
  const history = [...prompt, ...generated];
  for (const [token, bias] of config.logitBias) edit(token).bias += bias;
  const window = config.repetitionContextSize === 0 ? [] : history.slice(-config.repetitionContextSize);
  for (const token of window) edit(token).repetition = config.repetitionPenalty;
  for (const token of new Set(generated)) {
    const count = generated.filter((other) => other === token).length;
    edit(token).subtract = config.presencePenalty + config.frequencyPenalty * count;
  }
  if (generated.length < config.minTokens) { for (const id of stopIds) edit(id).bias = -Infinity; }
  for (const words of config.badWords) {
    const start = words.slice(0, -1);
    if (start.every((word, i) => history[history.length - start.length + i] === word)) edit(words.at(-1) ?? -1).bias = -Infinity;
  }
  return new Map([...edits].filter(([, { bias, repetition, subtract }]) => bias !== 0 || repetition !== 1 || subtract !== 0));
}

const byToken = (edits: Map<number, Edit>): [number, Edit][] => [...edits].sort(([a], [b]) => a - b);

Deno.test("edits kept up to date token by token equal the definitions computed from the whole history", () => {
  const token = fc.integer({ min: 0, max: 9 });
  const config = fc.record({
    logitBias: fc.array(fc.tuple(token, fc.constantFrom(-100, 0, 0.5, 3)), { maxLength: 4 }).map((pairs) => new Map(pairs)),
    repetitionPenalty: fc.constantFrom(1, 1.25, 0.5),
    repetitionContextSize: fc.integer({ min: 0, max: 8 }),
    presencePenalty: fc.constantFrom(0, 0.5, -1),
    frequencyPenalty: fc.constantFrom(0, 0.25, -0.5),
    minTokens: fc.integer({ min: 0, max: 6 }),
    badWords: fc.array(fc.array(token, { minLength: 1, maxLength: 3 }), { maxLength: 3 }),
  }, { noNullPrototype: true });
  const ids = fc.array(token, { minLength: 1, maxLength: 15 });
  fc.assert(
    fc.property(
      config,
      ids,
      fc.array(token, { maxLength: 20 }),
      fc.array(token, { maxLength: 3 }),
      (overrides, prompt, generated, stopIds) => {
        const expected = expectedEdits({ ...GREEDY, ...overrides }, prompt, generated, stopIds);
        assertEquals(byToken(editsAfter(overrides, prompt, generated, stopIds)), byToken(expected));
      },
    ),
    { numRuns: 1000 },
  );
});

Deno.test("a row that changes no logit has no edits object at all", () => {
  assertEquals(RowEdits.create(GREEDY, [1, 2], Int32Array.of(3)), null);
  assertEquals(RowEdits.create({ ...GREEDY, minTokens: 4 }, [], Int32Array.of(3)), null);
});

Deno.test("presence and frequency penalties look at generated tokens only, as OpenAI defines them", () => {
  const edits = editsAfter({ presencePenalty: 1, frequencyPenalty: 0.5 }, [4, 4, 5], [5, 5, 6]);
  assertEquals(byToken(edits), [[5, { bias: 0, repetition: 1, subtract: 2 }], [6, { bias: 0, repetition: 1, subtract: 1.5 }]]);
});

Deno.test("the repetition penalty lets a token go when it has left the window", () => {
  const inWindow = (generated: number[]): number[] =>
    [...editsAfter({ repetitionPenalty: 2, repetitionContextSize: 3 }, [1, 2], generated).keys()].sort((a, b) => a - b);
  assertEquals(inWindow([]), [1, 2]);
  assertEquals(inWindow([3]), [1, 2, 3]);
  assertEquals(inWindow([3, 2]), [2, 3]);
  assertEquals(inWindow([3, 2, 7, 7]), [2, 7]);
});

Deno.test("min_tokens bans the stop ids until that many tokens are there, and keeps the rest of the row's edits", () => {
  const overrides = { minTokens: 2, logitBias: new Map([[9, 3], [8, 1]]) };
  assertEquals(editsAfter(overrides, [1], [4], [9]).get(9)?.bias, -Infinity);
  assertEquals(editsAfter(overrides, [1], [4], [9]).get(8)?.bias, 1);
  assertEquals(editsAfter(overrides, [1], [4, 4], [9]).get(9)?.bias, 3);
});

Deno.test("a bad word of several tokens bans its last token only where it would be completed", () => {
  const badWords = [[1, 2, 3], [7]];
  assertEquals([...editsAfter({ badWords }, [1], [2]).keys()].sort(), [3, 7]);
  assertEquals([...editsAfter({ badWords }, [1], [2, 2]).keys()], [7]);
  assertEquals([...editsAfter({ badWords }, [2], []).keys()], [7]);
});

Deno.test("penalties stay finite and bans stay bans when they meet", () => {
  const edits = editsAfter(
    { frequencyPenalty: 1e6, dryMultiplier: 1e6, logitBias: new Map([[5, -Infinity]]) },
    [5, 6, 5, 6],
    Array(3000).fill(5),
  );
  const { bias, subtract } = edits.get(5) ?? { bias: 0, subtract: 0 };
  assertEquals(bias, -Infinity);
  assertEquals(subtract, 1e9);
});
