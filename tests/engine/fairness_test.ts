/** Who waits how long for a first token, and for the next one: arrivals over time, on a virtual clock. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Arrival, type Course, percentile, poisson, PROMPT_TOKEN_MS, simulate, STEP_MS } from "./arrivals.ts";

const CHUNK = 256;
/** The longest step: a whole chunk. */
const CHUNK_STEP_MS = STEP_MS + CHUNK * PROMPT_TOKEN_MS;
const LIMITS = { maxBatch: 16, prefillChunk: CHUNK };
const LONG = { promptLength: 8000, maxTokens: 8 };

function chat(random: () => number): Omit<Arrival, "atMs"> {
  return { promptLength: 20 + Math.floor(100 * random()), maxTokens: 10 + Math.floor(60 * random()) };
}

function isLong({ arrival }: Course): boolean {
  return arrival.promptLength === LONG.promptLength;
}

function meanFirstTokenMs(courses: readonly Course[]): number {
  return courses.reduce((sum, { firstTokenMs }) => sum + firstTokenMs, 0) / courses.length;
}

const anyArrivals = fc.array(
  fc.record({
    gapMs: fc.constantFrom(0, 0, 5, 100, 2000),
    promptLength: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 80 }) }, {
      weight: 1,
      arbitrary: fc.integer({ min: 100, max: 3000 }),
    }),
    maxTokens: fc.integer({ min: 1, max: 30 }),
  }),
  { minLength: 1, maxLength: 40 },
).map((list) => {
  let atMs = 0;
  return list.map(({ gapMs, ...rest }): Arrival => ({ atMs: atMs += gapMs, ...rest }));
});

Deno.test("whatever arrives, nobody starves, no stream waits longer than one chunk, and every step is as full as it can be", () => {
  const limits = fc.record({ maxBatch: fc.integer({ min: 1, max: 16 }), prefillChunk: fc.integer({ min: 1, max: 300 }) });
  fc.assert(fc.property(anyArrivals, limits, (arrivals, { maxBatch, prefillChunk }) => {
    const { courses, steps } = simulate(arrivals, { maxBatch, prefillChunk });
    const half = Math.ceil(prefillChunk / 2);
    for (const { arrival, older, numPrefillSteps, longestGapMs } of courses) {
      // Whoever came earlier is first for so many steps at most, then it is this one's turn.
      const bound = [...older, arrival.promptLength].reduce((sum, numTokens) => sum + Math.ceil(numTokens / half), 0);
      assert(numPrefillSteps <= bound, `A prompt of ${arrival.promptLength} behind ${older} took ${numPrefillSteps} steps, not ${bound}`);
      assert(longestGapMs <= STEP_MS + prefillChunk * PROMPT_TOKEN_MS, `A stream waited ${longestGapMs} ms`);
    }
    for (const { numRows, numLive, numPrompt, numWanted } of steps) {
      assertEquals([numRows, numPrompt], [Math.min(numLive, maxBatch), Math.min(numWanted, prefillChunk)]);
    }
  }));
});

Deno.test("a prompt that is shorter than half a chunk gets its first token in the first step that it has a row in, behind any number of long ones", () => {
  const long = Array.from({ length: 15 }, (_, i): Arrival => ({ atMs: i, ...LONG }));
  const short = [120, 3, 128].map((promptLength, i): Arrival => ({ atMs: 20_000 * (i + 1), promptLength, maxTokens: 1 }));
  const { courses } = simulate([...long, ...short], LIMITS);
  // The step that it came in has to end first.
  for (const course of courses.slice(15)) {
    assertEquals(course.numPrefillSteps, 1);
    assert(course.firstTokenMs <= 2 * CHUNK_STEP_MS, `It took ${course.firstTokenMs} ms`);
  }
});

Deno.test("a long prompt among short ones that never stop to come takes no more than twice its time alone", () => {
  const alone = simulate([{ atMs: 0, ...LONG }], LIMITS).courses[0]!;
  // Every step there is a new prompt that is shorter than what the long one has left.
  const flood = Array.from({ length: 400 }, (_, i): Arrival => ({ atMs: 500 * i, promptLength: 250, maxTokens: 1 }));
  const { courses } = simulate([{ atMs: 0, ...LONG }, ...flood], LIMITS);
  const long = courses.find(isLong)!;
  assertEquals([alone.numPrefillSteps, long.numPrefillSteps <= 2 * alone.numPrefillSteps], [32, true]);
  assert(long.numPrefillSteps > 1.8 * alone.numPrefillSteps, "The flood did not compete with it: the test is about nothing");
});

Deno.test("one 8k prompt among chats: chats go on, their first tokens hardly wait, and the long one is done in time", () => {
  const chats = poisson(60, 0.3, 11, chat);
  const arrivals = [...chats, { atMs: 10_000, ...LONG }].sort((a, b) => a.atMs - b.atMs);
  const { courses } = simulate(arrivals, LIMITS);
  const [long] = courses.filter(isLong);
  const others = courses.filter((course) => !isLong(course));
  const alone = simulate(chats, LIMITS).courses;
  assert(long!.firstTokenMs <= 2 * 32 * CHUNK_STEP_MS);
  for (const { longestGapMs } of others) assert(longestGapMs <= CHUNK_STEP_MS, `A chat waited ${longestGapMs} ms for a token`);
  const firstMs = others.map(({ firstTokenMs }) => firstTokenMs);
  // A chat that comes waits for the step that runs, and is in the next one or, beside others that came with it, in the one after it.
  assert(percentile(firstMs, 0.95) <= 2 * CHUNK_STEP_MS, `95 % of the chats have a first token after ${percentile(firstMs, 0.95)} ms`);
  assert(Math.max(...firstMs) <= 3 * CHUNK_STEP_MS, `The slowest chat has a first token after ${Math.max(...firstMs)} ms`);
  assert(percentile(alone.map(({ firstTokenMs }) => firstTokenMs), 0.95) <= CHUNK_STEP_MS);
});

Deno.test("a burst of equal prompts is computed one after the other in the order of arrival, as many in a step as fit", () => {
  const burst = Array.from({ length: 8 }, (): Arrival => ({ atMs: 0, promptLength: 128, maxTokens: 4 }));
  const { courses } = simulate(burst, LIMITS);
  assertEquals(courses.map(({ numPrefillSteps }) => numPrefillSteps), [1, 1, 2, 2, 3, 3, 4, 4]);
});

Deno.test("a burst of mixed prompts has its first tokens earlier in the mean than first come first served would bring them", () => {
  const lengths = [2000, 60, 900, 30, 120, 1500, 45, 300];
  const { courses, steps } = simulate(lengths.map((promptLength) => ({ atMs: 0, promptLength, maxTokens: 1 })), LIMITS);
  let numTokens = 0;
  const firstComeMs = lengths.map((length) => {
    numTokens += length;
    return Math.ceil(numTokens / CHUNK) * STEP_MS + PROMPT_TOKEN_MS * numTokens;
  });
  const mean = meanFirstTokenMs(courses);
  assert(mean < 0.6 * firstComeMs.reduce((sum, ms) => sum + ms, 0) / lengths.length, `The mean is ${mean} ms`);
  // Nothing is lost by it: the last prompt is done after as many steps as all of them need.
  assertEquals(steps.length, Math.ceil(numTokens / CHUNK));
});

Deno.test("under a Poisson load near what the machine can do, short and long prompts both get their first tokens in bounded time", () => {
  for (const seed of [1, 2, 3]) {
    // 0.8 of the time goes to prompts and steps: 160 requests, one in eight of them long.
    const arrivals = poisson(160, 0.45, seed, (random) => random() < 0.125 ? { promptLength: 1500, maxTokens: 20 } : chat(random));
    const { courses } = simulate(arrivals, LIMITS);
    const [short, long] = [
      courses.filter(({ arrival }) => arrival.promptLength < 200),
      courses.filter(({ arrival }) => arrival.promptLength >= 200),
    ];
    const [shortMs, longMs] = [short, long].map((list) => percentile(list.map(({ firstTokenMs }) => firstTokenMs), 0.95));
    assert(long.length > 5 && shortMs! <= 2.5 * CHUNK_STEP_MS, `95 % of the short ones have a first token after ${shortMs} ms`);
    assert(longMs! <= 4 * 6 * CHUNK_STEP_MS, `95 % of the long ones have a first token after ${longMs} ms`);
    for (const { longestGapMs } of courses) assert(longestGapMs <= CHUNK_STEP_MS);
  }
});

Deno.test("rows are given in the order of arrival: a short request behind a queue of long ones gets the next row that becomes free", () => {
  const long = Array.from({ length: 4 }, (_, i): Arrival => ({ atMs: i, promptLength: 1000, maxTokens: 5 }));
  const { courses } = simulate([...long, { atMs: 5, promptLength: 10, maxTokens: 1 }], { maxBatch: 4, prefillChunk: CHUNK });
  const [first] = courses;
  const short = courses.at(-1)!;
  assertEquals(short.numPrefillSteps, 1);
  assert(short.firstTokenMs > first!.firstTokenMs && short.firstTokenMs <= first!.firstTokenMs + 6 * CHUNK_STEP_MS);
});
