/**
 * Sets up what is missing, runs Deno's tests and the native ones, and ends with one line that sums them: `N passed, N failed`.
 * Arguments: `--only deno|native|compiled` (the last one only when it is named), `--sanitize` (the native tests under AddressSanitizer), and files or
 * folders of Deno's tests, which leave the native ones out.
 */
import { join } from "node:path";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { ensureNativeTests } from "./build_ffi.ts";
import { setup } from "./setup.ts";
import { compiledTests } from "./testing/compiled_runner.ts";
import { addCounts, countJunit, describeCounts, NO_TESTS, type TestCounts } from "./testing/junit.ts";
import { parseTestOptions, type TestOptions } from "./testing/test_options.ts";

async function runTests(options: TestOptions, reports: string): Promise<TestCounts> {
  const progress = new TerminalProgress();
  let counts = NO_TESTS;
  if (options.runners.includes("deno")) {
    const { libraryPath, modelPath } = await setup(progress);
    const report = join(reports, "deno.xml");
    const args = ["test", "-A", "--junit-path", report, ...options.paths];
    const code = await runProgram(Deno.execPath(), args, { ROWLOCK_LIBRARY: libraryPath, ROWLOCK_TEST_MODEL: modelPath });
    counts = addCounts(counts, await readReport("deno test", code, report));
  }
  if (options.runners.includes("native")) {
    const tree = await ensureNativeTests(progress, options.isSanitized ? ["-DROWLOCK_SANITIZE=ON"] : []);
    const report = join(reports, "native.xml");
    const code = await runProgram("ctest", ["--test-dir", tree, "--output-on-failure", "--output-junit", report]);
    counts = addCounts(counts, await readReport("ctest", code, report));
  }
  if (options.runners.includes("compiled")) {
    const { libraryPath } = await setup(progress);
    const report = join(reports, "compiled.xml");
    const { command: [program = "", ...args], env } = await compiledTests(report, progress);
    const code = await runProgram(program, args, { ROWLOCK_LIBRARY: libraryPath, ...env });
    counts = addCounts(counts, await readReport("compiled", code, report));
  }
  return counts;
}

async function runProgram(program: string, args: string[], env: Record<string, string> = {}): Promise<number> {
  const child = new Deno.Command(program, { args, env, stdin: "null", stdout: "inherit", stderr: "inherit" }).spawn();
  return (await child.status).code;
}

/** A runner that failed without a failed test (sources that do not compile, a crash), or that ran no test at all, counts as one failure. */
async function readReport(runner: string, code: number, report: string): Promise<TestCounts> {
  const counts = await Deno.readTextFile(report).then(countJunit, () => NO_TESTS);
  console.log(`${runner}: ${counts.passed} ok, ${counts.failed} not ok, exit code ${code}\n`);
  const isSilentFailure = counts.failed === 0 && (code !== 0 || counts.passed === 0);
  return isSilentFailure ? { ...counts, failed: 1 } : counts;
}

/** What was typed wrong ends the script before anything is set up. */
function readOptions(): TestOptions {
  try {
    return parseTestOptions(Deno.args);
  } catch (error) {
    console.error(`test: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}

if (import.meta.main) {
  const options = readOptions();
  const reports = await Deno.makeTempDir();
  let counts: TestCounts = { ...NO_TESTS, failed: 1 };
  try {
    counts = await runTests(options, reports);
  } catch (error) {
    console.error(`test: ${error instanceof Error ? error.message : error}`);
  } finally {
    await Deno.remove(reports, { recursive: true });
  }
  console.log(describeCounts(counts));
  if (counts.failed > 0) Deno.exit(1);
}
