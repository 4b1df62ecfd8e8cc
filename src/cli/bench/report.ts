/** The benchmark's table. */
import type { BenchServer } from "./stream_client.ts";
import { type Mode, MODES } from "./workload.ts";

/** One run of one case. */
export interface Sample {
  readonly tokensPerSecond: number;
  /** Time to first token of every row. */
  readonly ttftMs: readonly number[];
}

export function caseKey(server: BenchServer, mode: Mode, numRows: number): string {
  return `${server.name}\n${mode}\n${numRows}`;
}

/** What the columns say; below the table. */
export const LEGEND = `server   rowlock, or the URL of a --peer
rows     requests that run at once
tok/s    tokens a second of all rows together, from the first request to the last token, prompts included
TTFT ms  milliseconds from a request to its first token
greedy   temperature 0 in all rows
shared   all rows sampled with the same settings
distinct every row with other settings and a seed of its own`;

/** Markdown: a line for each server and number of rows, medians over all runs. */
export function report(servers: readonly BenchServer[], rows: readonly number[], samples: ReadonlyMap<string, readonly Sample[]>): string {
  const head = [
    `| server | rows | ${MODES.map((mode) => `${mode} tok/s | TTFT ms |`).join(" ")}`,
    `| --- |${" ---: |".repeat(1 + 2 * MODES.length)}`,
  ];
  const lines = servers.flatMap((server) =>
    rows.map((numRows) => {
      const cells = MODES.map((mode) => describeCase(samples.get(caseKey(server, mode, numRows)) ?? []));
      return `| ${server.name} | ${numRows} | ${cells.join(" ")}`;
    })
  );
  return [...head, ...lines].join("\n");
}

function describeCase(samples: readonly Sample[]): string {
  const rate = median(samples.map((sample) => sample.tokensPerSecond));
  const ttftMs = median(samples.flatMap((sample) => sample.ttftMs));
  return `${rate.toFixed(1)} | ${ttftMs.toFixed(0)} |`;
}

/** NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}
