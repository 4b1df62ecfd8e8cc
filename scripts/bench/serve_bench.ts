/**
 * Tokens per second and time to first token over HTTP, for 1, 4, 8 and 16 rows at once: greedy, one shared configuration, all distinct.
 * `--peer URL` (may be repeated) measures another OpenAI-compatible server beside this one, in the same run, taking turns.
 */
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { setup } from "../setup.ts";
import { type ChildServer, startChildServer } from "./child_server.ts";
import { type BenchServer, timeStream } from "./stream_client.ts";
import { type Mode, MODES, requestBody } from "./workload.ts";

const HELP = `Usage: deno task bench [flags]
  --rows LIST        numbers of concurrent requests (default: 1,4,8,16)
  --tokens N         tokens of each answer (default: 64)
  --repeats N        runs of each case; the median is shown (default: 3)
  --model PATH       model of the server that is started (default: the default model)
  --url URL          measure a Rowlock that runs already instead of starting one
  --peer URL         another OpenAI-compatible server to measure in turn; may be repeated`;

interface BenchOptions {
  readonly rows: readonly number[];
  readonly numTokens: number;
  readonly numRepeats: number;
  readonly model: string | null;
  readonly url: string | null;
  readonly peers: readonly string[];
}

interface Sample {
  readonly tokensPerSecond: number;
  readonly ttftMs: number;
}

function parseOptions(args: string[]): BenchOptions {
  const { values } = parseArgs({
    args,
    options: {
      rows: { type: "string", default: "1,4,8,16" },
      tokens: { type: "string", default: "64" },
      repeats: { type: "string", default: "3" },
      model: { type: "string" },
      url: { type: "string" },
      peer: { type: "string", multiple: true, default: [] },
    },
  });
  return {
    rows: values.rows.split(",").map((text) => positive("--rows", text)),
    numTokens: positive("--tokens", values.tokens),
    numRepeats: positive("--repeats", values.repeats),
    model: values.model ?? null,
    url: values.url ?? null,
    peers: values.peer,
  };
}

function positive(flag: string, text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${flag} has "${text}", expected a whole number from 1`);
  return Number(text);
}

/** All rows at once; the rate counts from the first request to the last token, prefill included. */
async function runCase(server: BenchServer, mode: Mode, numRows: number, numTokens: number): Promise<Sample> {
  const startedMs = performance.now();
  const rows = Array.from({ length: numRows }, (_, index) => timeStream(server, requestBody(mode, index, numTokens)));
  const timings = await Promise.all(rows);
  const elapsedSeconds = (performance.now() - startedMs) / 1000;
  const total = timings.reduce((sum, timing) => sum + timing.numTokens, 0);
  return { tokensPerSecond: total / elapsedSeconds, ttftMs: median(timings.map((timing) => timing.ttftMs)) };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}

/** Servers take turns within every case, so that what else the machine does hits all of them alike. */
async function runAll(servers: readonly BenchServer[], options: BenchOptions): Promise<Map<string, Sample[]>> {
  const samples = new Map<string, Sample[]>();
  for (const server of servers) await runCase(server, "greedy", 1, 4);
  for (let repeat = 0; repeat < options.numRepeats; repeat++) {
    for (const numRows of options.rows) {
      for (const mode of MODES) {
        for (const server of servers) {
          const sample = await runCase(server, mode, numRows, options.numTokens);
          const key = caseKey(server, mode, numRows);
          samples.set(key, [...samples.get(key) ?? [], sample]);
        }
      }
    }
  }
  return samples;
}

function caseKey(server: BenchServer, mode: Mode, numRows: number): string {
  return `${server.name}\n${mode}\n${numRows}`;
}

function report(servers: readonly BenchServer[], options: BenchOptions, samples: ReadonlyMap<string, readonly Sample[]>): string {
  const lines = [
    `| server | rows | ${MODES.map((mode) => `${mode} tok/s | TTFT ms |`).join(" ")}`,
    `| --- |${" ---: |".repeat(1 + 2 * MODES.length)}`,
  ];
  for (const server of servers) {
    for (const numRows of options.rows) {
      const cells = MODES.map((mode) => {
        const found = samples.get(caseKey(server, mode, numRows)) ?? [];
        return `${median(found.map((sample) => sample.tokensPerSecond)).toFixed(1)} | ${
          median(found.map((sample) => sample.ttftMs)).toFixed(0)
        } |`;
      });
      lines.push(`| ${server.name} | ${numRows} | ${cells.join(" ")}`);
    }
  }
  return lines.join("\n");
}

async function describePeer(url: string): Promise<BenchServer> {
  const base = url.replace(/\/+$/, "").replace(/\/v1$/, "");
  const answer: { data?: { id?: string }[] } = await (await fetch(`${base}/v1/models`)).json();
  return { name: base, url: base, model: answer.data?.[0]?.id ?? "default" };
}

async function startOwn(options: BenchOptions): Promise<ChildServer> {
  if (options.url !== null) return { url: options.url.replace(/\/+$/, ""), stop: () => Promise.resolve() };
  const progress = new TerminalProgress();
  const libraryPath = options.model === null ? (await setup(progress)).libraryPath : await ensureLibrary(progress);
  const flags = ["--max-batch", `${Math.max(...options.rows)}`, ...(options.model === null ? [] : ["--model", options.model])];
  return await startChildServer(flags, { ROWLOCK_LIBRARY: libraryPath });
}

async function bench(options: BenchOptions): Promise<void> {
  const own = await startOwn(options);
  try {
    const servers = [{ name: "rowlock", url: own.url, model: "default" }, ...await Promise.all(options.peers.map(describePeer))];
    const samples = await runAll(servers, options);
    console.log(`${options.numTokens} tokens each, median of ${options.numRepeats}\n\n${report(servers, options, samples)}`);
  } finally {
    await own.stop();
  }
}

if (import.meta.main) {
  if (Deno.args.includes("--help")) console.log(HELP);
  else {
    try {
      await bench(parseOptions(Deno.args));
    } catch (error) {
      console.error(`bench: ${error instanceof Error ? error.message : error}`);
      Deno.exit(1);
    }
  }
}
