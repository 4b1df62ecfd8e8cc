/**
 * Breaks a copy of the checkout in one line at a time and runs the test that has to notice: tests are worth what they catch. Exit code 0 when
 * every fault is caught.
 */
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { cacheFolder } from "../../src/hub/cache_folder.ts";
import { CommandError } from "../../src/hub/command.ts";
import { withFileLock } from "../../src/hub/file_lock.ts";
import { libraryFileName } from "../../src/native/library.ts";
import { buildKey } from "../native/native_paths.ts";
import { runScript } from "../run_script.ts";
import { ensureModel } from "../setup.ts";
import { ALL_MUTANTS } from "./all_mutants.ts";
import { applyMutant, describeMutant, type Mutant } from "./mutant.ts";
import { buildFor, runTest, type TestResult, type TestTree } from "./run_test.ts";
import { syncTree, withText } from "./tree_copy.ts";

const HELP = `Usage: deno task test:mutants [--only TEXT]
  --only TEXT   only faults whose file, text or test contains TEXT`;

const CHECKOUT = fileURLToPath(new URL("../..", import.meta.url));

async function makeTree(folder: string, progress: TerminalProgress): Promise<TestTree> {
  await syncTree(CHECKOUT, folder);
  // The copy's own script builds the copy's own library.
  const script: typeof import("../build_ffi.ts") = await import(pathToFileURL(join(folder, "scripts", "build_ffi.ts")).href);
  const build = await script.ensureNativeTests(progress);
  const env = { ROWLOCK_LIBRARY: join(build, libraryFileName()), ROWLOCK_TEST_MODEL: await ensureModel(progress) };
  return { folder, build, env };
}

/** A test that fails without a fault catches nothing. @throws {Error} naming it. */
async function checkBaseline(tree: TestTree, mutants: readonly Mutant[]): Promise<void> {
  for (const test of new Set(mutants.map((mutant) => mutant.test))) {
    const result = await runTest(tree, test);
    if (result.type !== "passed") throw new Error(`${test} fails without any fault: ${result.what}`);
  }
}

async function tryMutant(tree: TestTree, mutant: Mutant): Promise<TestResult> {
  const path = join(tree.folder, mutant.file);
  const text = applyMutant(await Deno.readTextFile(path), mutant);
  return await withText(path, text, async () => {
    try {
      if (mutant.file.startsWith("ffi/")) await buildFor(tree, mutant.test);
    } catch (error) {
      if (error instanceof CommandError) return { type: "broken", what: `it does not compile:\n${error.message}` };
      throw error;
    }
    return await runTest(tree, mutant.test);
  });
}

function describeResult(mutant: Mutant, result: TestResult): string {
  const what = describeMutant(mutant);
  if (result.type === "passed") return `SURVIVED  ${what}\n          ${mutant.test} passes`;
  if (result.type === "broken") return `INVALID   ${what}\n          ${result.what}`;
  return `caught    ${what}\n          ${mutant.test}: ${result.what}`;
}

/** @returns whether all were caught. */
async function runAll(tree: TestTree, mutants: readonly Mutant[]): Promise<boolean> {
  await checkBaseline(tree, mutants);
  let numCaught = 0;
  try {
    for (const mutant of mutants) {
      const result = await tryMutant(tree, mutant);
      if (result.type === "failed") numCaught++;
      console.log(describeResult(mutant, result));
    }
  } finally {
    // The library of the last fault must not wait for whoever uses the tree next.
    await buildFor(tree, null);
  }
  console.log(`${numCaught} of ${mutants.length} caught`);
  return numCaught === mutants.length;
}

async function main(args: string[]): Promise<boolean> {
  const { values } = parseArgs({ args, options: { only: { type: "string", default: "" } } });
  const mutants = ALL_MUTANTS.filter((mutant) => `${describeMutant(mutant)} ${mutant.test}`.includes(values.only));
  if (mutants.length === 0) throw new Error(`--only is "${values.only}", which no fault contains`);
  const progress = new TerminalProgress();
  const folder = join(cacheFolder(), "mutants", buildKey([CHECKOUT]));
  const onWait = (): void => progress.note("Another run uses the copy of this checkout; waiting for it");
  return await withFileLock(`${folder}.lock`, onWait, async () => await runAll(await makeTree(folder, progress), mutants));
}

if (import.meta.main) {
  await runScript("mutants", HELP, async (args) => {
    if (!await main(args)) Deno.exit(1);
  });
}
