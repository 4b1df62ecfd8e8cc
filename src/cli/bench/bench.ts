/**
 * The command `bench`: tokens per second and time to first token over HTTP, greedy, with one shared configuration and with all distinct.
 * Other OpenAI-compatible servers are measured beside this one, in the same run, taking turns.
 */
import type { SettingsOf } from "../command.ts";
import { integer, text, texts, UsageError } from "../flags.ts";
import { type ChildServer, startChildServer } from "./child_server.ts";
import { describeServer } from "./describe_server.ts";
import { caseKey, LEGEND, report, type Sample } from "./report.ts";
import { type BenchServer, timeStream } from "./stream_client.ts";
import { type Mode, MODES, requestBody } from "./workload.ts";

export const BENCH_FLAGS = {
  rows: text({ placeholder: "LIST", default: "1,4,8,16", help: "Numbers of requests that run at once" }),
  tokens: integer({ placeholder: "TOKENS", default: 64, min: 1, max: 100_000, help: "Tokens of each answer" }),
  repeats: integer({ placeholder: "TIMES", default: 3, min: 1, max: 1000, help: "Runs of each case; the median is shown" }),
  model: text({ placeholder: "MODEL", default: null, defaultText: "the default model", help: "Model of the server that is started" }),
  url: text({ placeholder: "URL", default: null, help: "Measure the Rowlock that runs there instead of starting one" }),
  peer: texts({ placeholder: "URL", help: "Another OpenAI-compatible server to measure in turn; may be repeated" }),
} as const;

export type BenchSettings = SettingsOf<typeof BENCH_FLAGS>;

/** Prints the table. @throws {UsageError | Error} when a number is wrong, or a server cannot be had or answers with an error. */
export async function bench(settings: BenchSettings): Promise<void> {
  const rows = parseRows(settings.rows);
  if (settings.url !== null && settings.model !== null) throw new UsageError("--url and --model are both given, expected one of them");
  const own = await startOwn(settings, Math.max(...rows));
  try {
    const servers = [
      { name: "rowlock", url: own.url, model: "default" },
      ...await Promise.all(settings.peer.map((url) => describeServer("--peer", url))),
    ];
    const samples = await runAll(servers, rows, settings);
    const what = `${settings.tokens} tokens each, ${settings.repeats === 1 ? "one run" : `medians of ${settings.repeats} runs`}`;
    console.log(`${what}\n\n${report(servers, rows, samples)}\n\n${LEGEND}`);
  } finally {
    await own.stop();
  }
}

function parseRows(list: string): number[] {
  return list.split(",").map((part) => {
    if (!/^[1-9]\d{0,3}$/.test(part)) {
      throw new UsageError(`--rows has "${part}", expected whole numbers from 1 to 9999 with commas between`);
    }
    return Number(part);
  });
}

async function startOwn({ url, model }: BenchSettings, numRows: number): Promise<ChildServer> {
  if (url !== null) {
    const { name } = await describeServer("--url", url);
    return { url: name, stop: () => Promise.resolve() };
  }
  return await startChildServer(["--max-batch", `${numRows}`, ...(model === null ? [] : ["--model", model])]);
}

/** Servers take turns within every case, so that what else the machine does hits all of them alike. */
async function runAll(
  servers: readonly BenchServer[],
  rows: readonly number[],
  { tokens, repeats }: BenchSettings,
): Promise<Map<string, Sample[]>> {
  const samples = new Map<string, Sample[]>();
  for (const server of servers) await runCase(server, "greedy", 1, 4);
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const numRows of rows) {
      for (const mode of MODES) {
        for (const server of servers) {
          const sample = await runCase(server, mode, numRows, tokens);
          const key = caseKey(server, mode, numRows);
          samples.set(key, [...samples.get(key) ?? [], sample]);
        }
      }
    }
  }
  return samples;
}

/** All rows at once; the rate counts from the first request to the last token, prefill included. */
async function runCase(server: BenchServer, mode: Mode, numRows: number, numTokens: number): Promise<Sample> {
  const startedMs = performance.now();
  const rows = Array.from({ length: numRows }, (_, index) => timeStream(server, requestBody(mode, index, numTokens)));
  const timings = await Promise.all(rows);
  const elapsedSeconds = (performance.now() - startedMs) / 1000;
  const total = timings.reduce((sum, timing) => sum + timing.numTokens, 0);
  return { tokensPerSecond: total / elapsedSeconds, ttftMs: timings.map((timing) => timing.ttftMs) };
}
