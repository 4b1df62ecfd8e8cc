/**
 * `deno task soak`: 2,000 random requests, many of them left by their clients, and then everything has to be back where it began.
 * Arguments: `--requests N`, `--seconds N` (the time in which requests are sent, at most), `--seed N`.
 */
import { parseArgs } from "node:util";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { setup } from "./setup.ts";
import { runTestFile } from "./testing/run_test_file.ts";

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      requests: { type: "string", default: "2000" },
      seconds: { type: "string", default: "900" },
      seed: { type: "string", default: `${Math.floor(Math.random() * 2 ** 32)}` },
    },
  });
  const { libraryPath, modelPath } = await setup(new TerminalProgress());
  const isPassed = await runTestFile("tests/e2e/soak_test.ts", {
    ROWLOCK_LIBRARY: libraryPath,
    ROWLOCK_TEST_MODEL: modelPath,
    ROWLOCK_SOAK_REQUESTS: values.requests,
    ROWLOCK_SOAK_SECONDS: values.seconds,
    ROWLOCK_SOAK_SEED: values.seed,
  });
  Deno.exit(isPassed ? 0 : 1);
}
