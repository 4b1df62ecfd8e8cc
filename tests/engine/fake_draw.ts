/** What the fake model draws: a hash of the row's history and of everything that the call hands over for the row. */
import { EDIT_WORDS, SAMPLING_FIELD as FIELD, SAMPLING_WORDS } from "../../src/native/structs.ts";
import type { SampleCall } from "../../src/native/step_output.ts";
import { TOP_LOGPROBS_MAX } from "../../src/native/symbols.ts";

export const FAKE_VOCAB_SIZE = 211;
/** A row whose history ends with this token has no usable logits, nor has a row with one of these left behind its own tokens in its slot. */
export const BREAKING_TOKEN = 210;
/** The draw depends on everything that was handed over for the row, edits and mask included. */
export function drawFake(call: SampleCall, row: number, history: number): void {
  const words = call.rows.uint32.subarray(row * SAMPLING_WORDS, row * SAMPLING_WORDS + FIELD.numTopLogprobs);
  const [begin = 0, end = 0, mask = -1] = call.rows.int32.subarray(row * SAMPLING_WORDS + FIELD.editsBegin, (row + 1) * SAMPLING_WORDS);
  const edits = Array.from(
    { length: end - begin },
    (_, i) => [...call.edits.uint32.subarray((begin + i) * EDIT_WORDS, (begin + i + 1) * EDIT_WORDS)],
  )
    .sort(([a = 0], [b = 0]) => a - b).flat();
  const maskWords = Math.ceil(FAKE_VOCAB_SIZE / 32);
  const allowed = mask < 0 ? [] : call.masks.subarray(mask * maskWords, (mask + 1) * maskWords);
  const isAllowed = (token: number): boolean => mask < 0 || (((allowed[token >>> 5] ?? 0) >>> (token & 31)) & 1) === 1;
  const banned = new Set<number>();
  for (let i = begin; i < end; i++) {
    if (call.edits.float32[i * EDIT_WORDS + 1] === -Infinity) banned.add(call.edits.int32[i * EDIT_WORDS] ?? -1);
  }
  let token = hash([history, ...words, ...edits, ...allowed]) % BREAKING_TOKEN;
  while (banned.has(token) || !isAllowed(token)) token = (token + 1) % BREAKING_TOKEN;
  call.sampled.write(row, token, -(token % 7) / 8, 0, 1);
  if (!call.hasAlternatives) return;
  for (let i = 0; i < TOP_LOGPROBS_MAX; i++) {
    call.sampled.topTokens[row * TOP_LOGPROBS_MAX + i] = (token + i) % FAKE_VOCAB_SIZE;
    call.sampled.topLogprobs[row * TOP_LOGPROBS_MAX + i] = -i;
  }
}

/** The logits that `readLogits` gives after a history of this hash. */
export function fakeLogits(history: number): Float32Array {
  return Float32Array.from({ length: FAKE_VOCAB_SIZE }, (_, id) => (hash([history, id]) % 1000) / 100);
}

/** null when the history ends with the breaking token. */
export function historyHash(tokens: Int32Array, length: number): number | null {
  if (tokens[length - 1] === BREAKING_TOKEN) return null;
  return hash(tokens.subarray(0, length));
}

function hash(words: Iterable<number>): number {
  let state = 0x811c9dc5;
  for (const word of words) {
    state = Math.imul(state ^ word, 0x01000193);
    state ^= state >>> 15;
  }
  return Math.imul(state, 0x2c1b3c6d) >>> 0;
}
