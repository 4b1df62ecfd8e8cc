import { assertEquals } from "@std/assert";
import { type ProgressOutput, TerminalProgress } from "../../src/cli/terminal_progress.ts";

function recorder(isTerminal: boolean): { output: ProgressOutput; text: () => string; wait: (ms: number) => void } {
  let written = "";
  let clockMs = 0;
  const output = { isTerminal, write: (text: string): void => void (written += text), now: (): number => clockMs };
  return { output, text: () => written, wait: (ms) => clockMs += ms };
}

Deno.test("on a terminal one line is redrawn, not more than ten times a second, and a note starts a new line", () => {
  const { output, text, wait } = recorder(true);
  const progress = new TerminalProgress(output);
  progress.advance("building MLX", 1, 4, "steps");
  wait(50);
  progress.advance("building MLX", 2, 4, "steps");
  wait(60);
  progress.advance("building MLX", 3, 4, "steps");
  progress.advance("building MLX", 4, 4, "steps");
  progress.note("done");
  const lines = ["  25 % (1 of 4), 0 s", "  75 % (3 of 4), 0 s", " 100 % (4 of 4), 0 s"].map((line) =>
    `\r\x1b[K  building MLX: ${line.slice(1)}`
  );
  assertEquals(text(), `${lines.join("")}\ndone\n`);
});

Deno.test("in a log there is a line every five seconds and nothing for work that is over in a moment", () => {
  const { output, text, wait } = recorder(false);
  const progress = new TerminalProgress(output);
  progress.advance("quick", 1, 2, "steps");
  progress.advance("quick", 2, 2, "steps");
  for (let second = 0; second <= 11; second++) {
    progress.advance("downloading", second * 1e6, 11e6, "bytes");
    wait(1000);
  }
  assertEquals(text(), "  downloading:  45 % (5.0 MB of 11.0 MB), 5 s\n  downloading:  90 % (10.0 MB of 11.0 MB), 10 s\n");
});

Deno.test("work of unknown size shows what is done and never a percentage", () => {
  const { output, text } = recorder(true);
  new TerminalProgress(output).advance("downloading", 2_500_000, 0, "bytes");
  assertEquals(text(), "\r\x1b[K  downloading: 2.5 MB, 0 s");
});
