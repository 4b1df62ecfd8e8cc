/** Progress for people: one line that is redrawn on a terminal, a line every few seconds in a log. */
import type { Progress } from "../hub/progress.ts";

export interface ProgressOutput {
  readonly isTerminal: boolean;
  write(text: string): void;
  /** Milliseconds of any clock that only goes forward. */
  now(): number;
}

const REDRAW_MS = 100;
const LOG_LINE_MS = 5_000;
const ERASE_LINE = "\r\x1b[K";

/** Standard error: standard output stays free for results. */
const STDERR: ProgressOutput = {
  isTerminal: Deno.stderr.isTerminal(),
  write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    for (let written = 0; written < bytes.length;) written += Deno.stderr.writeSync(bytes.subarray(written));
  },
  now: () => performance.now(),
};

export class TerminalProgress implements Progress {
  #output: ProgressOutput;
  #label = "";
  #startedMs = 0;
  #shownMs = -Infinity;
  #isLineOpen = false;

  constructor(output: ProgressOutput = STDERR) {
    this.#output = output;
  }

  advance(label: string, done: number, total: number, unit: "bytes" | "steps"): void {
    const nowMs = this.#output.now();
    if (label !== this.#label) {
      this.#closeLine();
      this.#label = label;
      this.#startedMs = nowMs;
      // A log need not show the first step of work that may be over in a moment.
      this.#shownMs = this.#output.isTerminal ? -Infinity : nowMs;
    }
    const isLast = total > 0 && done >= total;
    const waitMs = this.#output.isTerminal ? REDRAW_MS : LOG_LINE_MS;
    if (nowMs - this.#shownMs < waitMs && !(isLast && this.#isLineOpen)) return;
    this.#shownMs = nowMs;
    this.#show(describe(label, done, total, unit, nowMs - this.#startedMs));
  }

  note(text: string): void {
    this.#closeLine();
    this.#label = "";
    this.#output.write(`${text}\n`);
  }

  #show(text: string): void {
    if (!this.#output.isTerminal) return this.#output.write(`${text}\n`);
    this.#output.write(`${ERASE_LINE}${text}`);
    this.#isLineOpen = true;
  }

  #closeLine(): void {
    if (this.#isLineOpen) this.#output.write("\n");
    this.#isLineOpen = false;
  }
}

function describe(label: string, done: number, total: number, unit: "bytes" | "steps", elapsedMs: number): string {
  const show = (count: number): string => unit === "bytes" ? `${(count / 1e6).toFixed(1)} MB` : `${count}`;
  const seconds = `${Math.round(elapsedMs / 1000)} s`;
  if (total <= 0) return `  ${label}: ${show(done)}, ${seconds}`;
  const percent = Math.floor(100 * Math.min(1, done / total));
  return `  ${label}: ${String(percent).padStart(3)} % (${show(done)} of ${show(total)}), ${seconds}`;
}
