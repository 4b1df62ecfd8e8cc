/** The loads, scaled to a small model and a CPU: what is sent when, and what is read off the answers. */
import { type BenchServer, type StreamTiming, timeStream } from "../../../src/cli/bench/stream_client.ts";
import { requestBody } from "../../../src/cli/bench/workload.ts";
import { planArrivals } from "./arrivals.ts";
import type { LoadLines, Measure } from "./peers_table.ts";
import type { PromptMaker } from "./prompts.ts";
import { goodput, longestGapMs, medianTtftMs, tokensPerSecond, tpotMs } from "./summary.ts";

export interface LoadContext {
  readonly server: BenchServer;
  readonly prompts: PromptMaker;
  /** Prompts of different rounds and loads differ. */
  readonly seed: number;
  readonly signal: AbortSignal;
}

export interface Load extends LoadLines {
  /** Only this server can do it. @default all of them */
  readonly only?: string;
  /** Run in the first round only. */
  readonly isLong?: boolean;
  /** @throws {Error} when a request fails or the signal ends it. */
  readonly run: (context: LoadContext) => Promise<Record<string, number>>;
}

/** Numbers of tokens, and of rows where it says so. */
export interface Sizes {
  readonly longPrompt: number;
  readonly prompt: number;
  readonly answer: number;
  readonly rows: readonly number[];
  readonly seededRows: readonly number[];
  readonly seededAnswer: number;
  readonly ratesPerSecond: readonly number[];
  readonly arrivalSeconds: number;
  readonly numSharing: number;
  readonly sharedPrefix: number;
  readonly stallPrompts: readonly number[];
}

export const FULL: Sizes = {
  longPrompt: 512,
  prompt: 128,
  answer: 48,
  rows: [1, 5, 8, 16, 32],
  seededRows: [8, 16],
  seededAnswer: 16,
  ratesPerSecond: [0.5, 1],
  arrivalSeconds: 12,
  numSharing: 8,
  sharedPrefix: 512,
  stallPrompts: [2048, 8000],
};

export const QUICK: Sizes = {
  ...FULL,
  longPrompt: 256,
  prompt: 64,
  answer: 24,
  rows: [1, 8, 16],
  seededRows: [8],
  seededAnswer: 12,
  ratesPerSecond: [1],
  arrivalSeconds: 6,
  numSharing: 8,
  sharedPrefix: 256,
  stallPrompts: [1024],
};

const RATE: Measure = { key: "tokensPerSecond", title: "tokens/s", decimals: 1 };
const TTFT: Measure = { key: "ttftMs", title: "first token, ms", decimals: 0 };
const TPOT: Measure = { key: "tpotMs", title: "a further token, ms", decimals: 1 };
/** What a person at a slow machine would call good. */
const GOOD = { ttftMs: 2000, tpotMs: 150 } as const;
const SHARING_ANSWER = 8;
const STALLED_ROWS = 8;
const STALLED_ANSWER = 64;
/** Tokens of the long prompt's answer: the first one or two may have no text. */
const STALLING_ANSWER = 16;

const MANY_ROWS = 32;

export function makeLoads(sizes: Sizes): Load[] {
  const { longPrompt, prompt, answer, seededAnswer, numSharing, sharedPrefix } = sizes;
  const rowsOf = (numRows: number): string => numRows === 1 ? "1 row" : `${numRows} rows`;
  const greedy = sizes.rows.map((numRows): Load => ({
    ...batch(`greedy${numRows}`, `${rowsOf(numRows)}, ${prompt}/${answer}`, "greedy", numRows, prompt, answer),
    isLong: numRows >= MANY_ROWS,
  }));
  const seeded = sizes.seededRows.map((numRows, i): Load => {
    const title = `${rowsOf(numRows)}, ${prompt}/${seededAnswer}, own temperature and seed`;
    return { ...batch(`seeded${numRows}`, title, "distinct", numRows, prompt, seededAnswer), isLong: i > 0 };
  });
  return [
    batch("one", `1 row, ${longPrompt}/${answer}`, "greedy", 1, longPrompt, answer),
    ...greedy,
    ...seeded,
    ...sizes.ratesPerSecond.map((rate): Load => ({ ...arriving(rate, sizes), isLong: rate < 1 })),
    sharing("shared", `${numSharing} × the same ${sharedPrefix}-token prefix`, sizes, true),
    { ...sharing("unshared", `${numSharing} × a ${sharedPrefix}-token prefix of its own`, sizes, false), isLong: true },
    ...sizes.stallPrompts.map((stallPrompt, i): Load => ({ ...stalling(stallPrompt, sizes), isLong: i > 0 })),
    ...[1, 8].map((numRows) => speculating(numRows, sizes)),
  ];
}

/** Tokens of the longest request, prompt and answer. */
export function longestRequest(sizes: Sizes): number {
  return Math.max(...sizes.stallPrompts, sizes.longPrompt + sizes.answer, sizes.prompt + STALLED_ANSWER) + 64;
}

function ask(
  { server, signal }: LoadContext,
  content: string,
  body: Record<string, unknown>,
  onFirstText?: () => void,
): Promise<StreamTiming> {
  const messages = [{ role: "user", content }];
  return timeStream(server, { ...body, messages }, { signal, ...(onFirstText === undefined ? {} : { onFirstText }) });
}

async function clocked<T>(body: () => Promise<T>): Promise<{ readonly result: T; readonly elapsedMs: number }> {
  const startedMs = performance.now();
  const result = await body();
  return { result, elapsedMs: performance.now() - startedMs };
}

function batch(key: string, title: string, mode: "greedy" | "distinct", numRows: number, numPrompt: number, numAnswer: number): Load {
  const run = async (context: LoadContext): Promise<Record<string, number>> => {
    const rows = Array.from({ length: numRows }, (_, row) => context.prompts.message(numPrompt, context.seed + row));
    const { result, elapsedMs } = await clocked(() =>
      Promise.all(rows.map((content, row) => ask(context, content, requestBody(mode, row, numAnswer))))
    );
    return {
      tokensPerSecond: tokensPerSecond(result, elapsedMs),
      ttftMs: medianTtftMs(result),
      tpotMs: result.reduce((sum, timing) => sum + tpotMs(timing), 0) / result.length,
    };
  };
  return { key, title, measures: [RATE, TTFT, TPOT], run };
}

function arriving(ratePerSecond: number, { prompt, answer, arrivalSeconds }: Sizes): Load {
  const run = async (context: LoadContext): Promise<Record<string, number>> => {
    const arrivals = planArrivals({
      ratePerSecond,
      numRequests: Math.max(4, Math.round(ratePerSecond * arrivalSeconds)),
      seed: context.seed,
      prompt: { median: prompt, sigma: 0.8, min: 48, max: 4 * prompt },
      answer: { median: answer / 2, sigma: 0.8, min: 4, max: 2 * answer },
    });
    const { result, elapsedMs } = await clocked(() =>
      Promise.all(arrivals.map(async ({ atMs, numPromptTokens, numAnswerTokens }, i) => {
        await pause(atMs, context.signal);
        return await ask(context, context.prompts.message(numPromptTokens, context.seed + i), requestBody("greedy", i, numAnswerTokens));
      }))
    );
    return { goodput: goodput(result, elapsedMs, GOOD), ttftMs: medianTtftMs(result), tokensPerSecond: tokensPerSecond(result, elapsedMs) };
  };
  const title = `${ratePerSecond} requests a second (Poisson), good: first token in ${GOOD.ttftMs} ms, further in ${GOOD.tpotMs}`;
  return { key: `poisson${ratePerSecond}`, title, measures: [{ key: "goodput", title: "good requests/s", decimals: 2 }, TTFT, RATE], run };
}

/** The first request comes alone, as the first of a day does: the others find its prefix, where a server keeps prefixes. */
function sharing(key: string, title: string, { numSharing, sharedPrefix, prompt }: Sizes, isShared: boolean): Load {
  const run = async (context: LoadContext): Promise<Record<string, number>> => {
    const messages = Array.from({ length: numSharing + 1 }, (_, i) => {
      const prefix = context.prompts.words(sharedPrefix, context.seed + (isShared ? 0 : i));
      return context.prompts.message(sharedPrefix + prompt / 2, context.seed + 100 + i, prefix);
    });
    const [first = "", ...others] = messages;
    const body = requestBody("greedy", 0, SHARING_ANSWER);
    await ask(context, first, body);
    const { result, elapsedMs } = await clocked(() => Promise.all(others.map((content) => ask(context, content, body))));
    return { requestsPerSecond: 1000 * result.length / elapsedMs, ttftMs: medianTtftMs(result) };
  };
  return { key, title, measures: [{ key: "requestsPerSecond", title: "requests/s", decimals: 2 }, TTFT], run };
}

/** A long prompt comes while rows decode: how long are they silent? */
function stalling(stallPrompt: number, { prompt }: Sizes): Load {
  const run = async (context: LoadContext): Promise<Record<string, number>> => {
    const startedMs: number[] = [];
    const firsts: Promise<void>[] = [];
    const rows = Array.from({ length: STALLED_ROWS }, (_, row) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      firsts.push(promise);
      startedMs.push(performance.now());
      const content = context.prompts.message(prompt, context.seed + row);
      const answer = ask(context, content, requestBody("greedy", row, STALLED_ANSWER), resolve);
      // A row that fails must not leave the others waiting for its first token; its error is thrown below.
      answer.catch(() => resolve());
      return answer;
    });
    await Promise.all(firsts);
    const arrivedMs = performance.now();
    // A model that has nothing to say to the long prompt has stalled the others all the same.
    const long = ask(context, context.prompts.message(stallPrompt, context.seed + 50), requestBody("greedy", 0, STALLING_ANSWER)).catch(
      (error: Error) => {
        if (error.message.includes("without a token")) return { ttftMs: performance.now() - arrivedMs };
        throw error;
      },
    );
    const [longTiming, ...timings] = await Promise.all([long, ...rows]);
    const gaps = timings.map(({ arrivalsMs }, row) => longestGapMs(arrivalsMs, arrivedMs - startedMs[row]!));
    return { gapMs: Math.max(...gaps), ttftMs: longTiming.ttftMs };
  };
  return {
    key: `stall${stallPrompt}`,
    title: `a ${stallPrompt}-token prompt comes while ${STALLED_ROWS} rows decode`,
    measures: [
      { key: "gapMs", title: "their longest gap, ms", decimals: 0 },
      { key: "ttftMs", title: "its first token, ms", decimals: 0 },
    ],
    run,
  };
}

/** Prompt lookup on texts that repeat their prompts, and without it; the words differ, so that no cache of prefixes counts. */
function speculating(numRows: number, { prompt, answer }: Sizes): Load {
  const run = async (context: LoadContext): Promise<Record<string, number>> => {
    const rates = { off: NaN, on: NaN };
    for (const [name, speculative, seed] of [["off", false, context.seed], ["on", "ngram", context.seed + 100]] as const) {
      const rows = Array.from(
        { length: numRows },
        (_, row) => `Repeat this word for word: ${context.prompts.words(prompt / 2, seed + row)}`,
      );
      const { result, elapsedMs } = await clocked(() =>
        Promise.all(rows.map((content, row) => ask(context, content, { ...requestBody("greedy", row, answer), speculative })))
      );
      rates[name] = tokensPerSecond(result, elapsedMs);
    }
    return { ...rates, gain: rates.on / rates.off };
  };
  return {
    key: `speculation${numRows}`,
    title: `${numRows} ${numRows === 1 ? "row" : "rows"} repeating a text`,
    only: "ours",
    measures: [
      { key: "off", title: "tokens/s without speculation", decimals: 1 },
      { key: "on", title: "tokens/s with prompt lookup", decimals: 1 },
      { key: "gain", title: "with / without", decimals: 2 },
    ],
    run,
  };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const leave = (): void => reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  const timer = setTimeout(resolve, ms);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", leave);
  }
}
