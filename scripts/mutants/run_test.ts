/** Runs one test file of a tree and tells what it found. */
import { basename, join } from "node:path";
import { runCommand, tryCommand } from "../../src/hub/command.ts";

export interface TestTree {
  /** The copy of the checkout. */
  readonly folder: string;
  /** CMake's build tree of its `ffi`. */
  readonly build: string;
  readonly env: Readonly<Record<string, string>>;
}

/** `failed` names the first test that failed; `broken` is a test that could not run, which proves nothing. */
export type TestResult = { readonly type: "passed" } | { readonly type: "failed" | "broken"; readonly what: string };

/** A test that takes longer hangs, and that is a failure that anybody would notice. */
const TIMEOUT_MS = 180_000;

/** `test` is a test file of Deno's, or the source of a C test program. */
export async function runTest(tree: TestTree, test: string): Promise<TestResult> {
  return isNative(test) ? await runProgram(tree, test) : await runDenoTest(tree, test);
}

/** Builds the native library and, if it is a C program, the test. @throws {CommandError} when it does not compile. */
export async function buildFor(tree: TestTree, test: string | null): Promise<void> {
  const targets = test !== null && isNative(test) ? ["rowlock", programOf(test)] : ["rowlock"];
  await runCommand(["cmake", "--build", tree.build, "--parallel", "2", "--target", ...targets]);
}

function isNative(test: string): boolean {
  return test.endsWith(".c");
}

function programOf(test: string): string {
  return basename(test, ".c");
}

async function runProgram(tree: TestTree, test: string): Promise<TestResult> {
  const lines: string[] = [];
  const onLine = (line: string): void => void lines.push(line.replace(`${tree.folder}/`, ""));
  const { code } = await tryCommand([join(tree.build, programOf(test))], { timeoutMs: TIMEOUT_MS, onLine });
  return code === 0 ? { type: "passed" } : { type: "failed", what: lines[0] ?? `exit code ${code}` };
}

async function runDenoTest(tree: TestTree, test: string): Promise<TestResult> {
  let failed: string | null = null;
  const onLine = (line: string): void => void (failed ??= /^not ok \d+ - (.*)$/.exec(line)?.[1] ?? null);
  const command = [Deno.execPath(), "test", "-A", "--no-check", "--reporter", "tap", test];
  const startedMs = performance.now();
  const { code, tail } = await tryCommand(command, {
    cwd: tree.folder,
    env: { ...tree.env, NO_COLOR: "1" },
    timeoutMs: TIMEOUT_MS,
    onLine,
  });
  if (failed !== null) return { type: "failed", what: failed };
  if (code === 0) return { type: "passed" };
  if (performance.now() - startedMs >= TIMEOUT_MS) return { type: "failed", what: `no end after ${TIMEOUT_MS / 1000} s` };
  return { type: "broken", what: tail.slice(-8).join("\n") };
}
