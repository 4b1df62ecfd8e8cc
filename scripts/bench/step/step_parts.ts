/** From the medians of the runs to the parts of a step, and their table. */

/** Milliseconds of a decode step, as medians over all steps of a run. */
export interface StepTimes {
  /** Inside the engine, without a thread of its own. */
  readonly coreMs: number;
  /** Building the graph and launching it, as processor time of the engine's thread. */
  readonly launchMs: number;
  /** Forward and draw together, waiting included. */
  readonly backendMs: number;
  /** Of a run that waits before it draws: the draw alone. */
  readonly drawMs: number;
  /** In its worker, from step to step as the main thread sees them. */
  readonly workerMs: number;
  /** Over HTTP, from one piece of text to the next. */
  readonly servedMs: number;
}

/** Milliseconds. What is the difference of two runs may come out a little below 0 where it is close to it. */
export interface StepParts {
  /** TypeScript of the engine: scheduling, preparing the draw, taking tokens in. */
  readonly hostMs: number;
  readonly launchMs: number;
  /** What the engine's thread waits for; the device computes beside the launch too. */
  readonly deviceMs: number;
  readonly drawMs: number;
  readonly messagesMs: number;
  readonly httpMs: number;
  readonly totalMs: number;
}

export function partsOf({ coreMs, launchMs, backendMs, drawMs, workerMs, servedMs }: StepTimes): StepParts {
  return {
    hostMs: coreMs - backendMs,
    launchMs,
    deviceMs: backendMs - launchMs - drawMs,
    drawMs,
    messagesMs: workerMs - coreMs,
    httpMs: servedMs - workerMs,
    totalMs: servedMs,
  };
}

const COLUMNS: readonly (readonly [part: keyof StepParts, title: string])[] = [
  ["hostMs", "host"],
  ["launchMs", "graph and launch"],
  ["deviceMs", "device"],
  ["drawMs", "sampling"],
  ["messagesMs", "messages"],
  ["httpMs", "HTTP"],
];

export interface StepLine {
  readonly numRows: number;
  readonly mode: string;
  readonly parts: StepParts;
}

/** Markdown: milliseconds, and their share of the whole step. */
export function stepTable(lines: readonly StepLine[]): string {
  const head = ["rows", "sampling config", ...COLUMNS.map(([, title]) => `${title}, ms`), "step, ms", "tokens/s"];
  return [
    `| ${head.join(" | ")} |`,
    `| ---: | --- |${" ---: |".repeat(head.length - 2)}`,
    ...lines.map(({ numRows, mode, parts }) => {
      const cells = COLUMNS.map(([part]) => `${parts[part].toFixed(2)} (${(100 * parts[part] / parts.totalMs).toFixed(1)} %)`);
      const rate = (1000 * numRows / parts.totalMs).toFixed(1);
      return `| ${numRows} | ${mode} | ${cells.join(" | ")} | ${parts.totalMs.toFixed(2)} | ${rate} |`;
    }),
  ].join("\n");
}
