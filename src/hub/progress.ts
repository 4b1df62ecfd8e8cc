/** What long work says while it runs. The hub and the scripts report through it; `src/cli/terminal_progress.ts` shows it. */
export interface Progress {
  /** How far the work called `label` is. `total` 0 means unknown. */
  advance(label: string, done: number, total: number, unit: "bytes" | "steps"): void;
  /** A sentence worth keeping: what was found, what is awaited, what is done. Ends a running progress line. */
  note(text: string): void;
}

/** For callers that want to hear nothing. */
export const SILENT: Progress = Object.freeze({ advance(): void {}, note(): void {} });
