import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { type FromEngine, NO_STATS, type RowUpdate, type TokenLogprob } from "../../src/engine/messages.ts";
import { type PackedMessage, StepPacker, StepUnpacker } from "../../src/engine/packed_step.ts";

const token = fc.integer({ min: 0, max: 2 ** 31 - 1 });
const milliseconds = fc.double({ min: 0, max: 1e6, noNaN: true });
const PLAIN = { noNullPrototype: true };
const logprob: fc.Arbitrary<TokenLogprob> = fc.record({
  logprob: fc.constantFrom(-0.5, -Infinity),
  top: fc.array(fc.record({ token, logprob: fc.constantFrom(-1, -2.25) }, PLAIN), { maxLength: 2 }),
}, PLAIN);

/** Every field that an update may have: one that is missing here does not compile. */
const fields: { [Key in keyof Required<RowUpdate>]: fc.Arbitrary<Required<RowUpdate>[Key]> } = {
  id: fc.constantFrom("a/0/0", "b/0/0"),
  tokens: fc.array(token, { maxLength: 4 }),
  logprobs: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(logprob, { maxLength: 3 }) }),
  finishReason: fc.constantFrom(null, null, null, "stop", "length", "cancelled"),
  promptLogprobs: fc.array(fc.option(logprob), { maxLength: 3 }),
  round: fc.record({ numDrafts: fc.nat(8), numAccepted: fc.nat(8) }, PLAIN),
  timings: fc.record({ queueMs: milliseconds, prefillMs: milliseconds, decodeMs: milliseconds }, PLAIN),
  cachedTokens: fc.nat(1000),
};
const { id, tokens, logprobs, finishReason, ...rare } = fields;
/** Few updates have more than tokens, and those mostly one thing. */
const updates = fc.tuple(
  fc.record({ id, tokens, logprobs: fc.constant([]), finishReason: fc.constant(null) }, PLAIN),
  fc.oneof(
    fc.constant({}),
    fc.record({ logprobs, finishReason }, PLAIN),
    ...Object.entries(rare).map(([key, value]) => value.map((some: unknown) => ({ [key]: some }))),
    fc.record({ logprobs, finishReason, ...rare }, PLAIN),
  ),
).map(([plain, more]) => ({ ...plain, ...more } as RowUpdate));
const messages: fc.Arbitrary<FromEngine> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.array(updates, { maxLength: 2 }).map((updates) => ({ type: "step" as const, updates, stats: { ...NO_STATS, steps: 5 } })),
  },
  { weight: 1, arbitrary: fc.constant({ type: "limited" as const }) },
);

/** A worker's message as the main thread gets it. */
function posted(message: PackedMessage): PackedMessage {
  return structuredClone(message);
}

Deno.test("messages that were packed and posted are the messages again, whatever came before them", () => {
  fc.assert(
    fc.property(fc.array(messages, { maxLength: 6 }), (sent) => {
      const packer = new StepPacker();
      const unpacker = new StepUnpacker();
      assertEquals(sent.map((message) => unpacker.unpack(posted(packer.pack(message)))), sent);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("who the updates are for is said once, as long as it stays the same", () => {
  const packer = new StepPacker();
  const step = (...ids: string[]): FromEngine => ({
    type: "step",
    updates: ids.map((id) => ({ id, tokens: [1], logprobs: [], finishReason: null })),
    stats: NO_STATS,
  });
  const told = [step("a", "b"), step("a", "b"), { type: "limited" as const }, step("a", "b"), step("a"), step("a"), step(), step("b", "a")]
    .map((message) => packer.pack(message)).flatMap((message) => message.type === "packed_step" ? [message.ids] : []);
  assertEquals(told, [["a", "b"], null, null, ["a"], null, [], ["b", "a"]]);
});
