/** The table of `bench:peers`: a line for each load and measure, a column for each server. */
import { median } from "../../../src/cli/bench/report.ts";

export interface Measure {
  readonly key: string;
  readonly title: string;
  readonly decimals: number;
}

/** What one load showed of one server in one round, by a measure's key; or why it showed nothing. */
export type LoadResult = { readonly values: Readonly<Record<string, number>> } | { readonly fault: string };

export interface LoadLines {
  readonly key: string;
  readonly title: string;
  readonly measures: readonly Measure[];
}

/** All rounds, by server and load. */
export class PeerResults {
  readonly #results = new Map<string, LoadResult[]>();

  add(server: string, load: string, result: LoadResult): void {
    const key = `${server}\n${load}`;
    this.#results.set(key, [...this.#results.get(key) ?? [], result]);
  }

  /** Median over the rounds that have the measure; NaN when none has. */
  median(server: string, load: string, measure: string): number {
    const values = this.#of(server, load).flatMap((result) => "values" in result ? [result.values[measure] ?? NaN] : []);
    return median(values.filter(Number.isFinite));
  }

  /** The last fault of a load that never came to an end, and null when it did once or was not run. */
  fault(server: string, load: string): string | null {
    const results = this.#of(server, load);
    const last = results.at(-1);
    return last !== undefined && "fault" in last && results.every((result) => "fault" in result) ? last.fault : null;
  }

  #of(server: string, load: string): readonly LoadResult[] {
    return this.#results.get(`${server}\n${load}`) ?? [];
  }
}

/**
 * Markdown. Behind every value of another server stands, in brackets, what the first server's is of it: above 1 is good for rates, below 1 for
 * times. Faults are numbered and stand below.
 */
export function peersTable(servers: readonly string[], loads: readonly LoadLines[], results: PeerResults): string {
  const faults: string[] = [];
  const lines = loads.flatMap((load) => {
    const cellsOf = (measure: Measure): string[] => servers.map((server) => cell(servers, server, load.key, measure, results, faults));
    return load.measures.map((measure, i) => `| ${i === 0 ? load.title : ""} | ${measure.title} | ${cellsOf(measure).join(" | ")} |`);
  });
  const head = [`| load | measure | ${servers.join(" | ")} |`, `| --- | --- |${" ---: |".repeat(servers.length)}`];
  const notes = faults.length === 0 ? [] : ["", ...faults.map((fault, i) => `${i + 1}. ${fault}`)];
  return [...head, ...lines, ...notes].join("\n");
}

function cell(servers: readonly string[], server: string, load: string, measure: Measure, results: PeerResults, faults: string[]): string {
  const fault = results.fault(server, load);
  if (fault !== null) return `– [${noteNumber(faults, `${server}: ${fault}`)}]`;
  const value = results.median(server, load, measure.key);
  if (!Number.isFinite(value)) return "";
  const own = results.median(servers[0] ?? "", load, measure.key);
  const ratio = server === servers[0] || !Number.isFinite(own) || value === 0 ? "" : ` (${(own / value).toFixed(2)}×)`;
  return `${value.toFixed(measure.decimals)}${ratio}`;
}

function noteNumber(notes: string[], note: string): number {
  const known = notes.indexOf(note);
  return known >= 0 ? known + 1 : notes.push(note);
}
