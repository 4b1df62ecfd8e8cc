/** Compiles the program, without and with the model, and gives the command that tests it. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCommand } from "../../src/hub/command.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { compile } from "../compile.ts";
import { type Isolated, withoutNetwork } from "./isolation.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FOLDER = join("tests", "compiled");

/** Deno's test command for `tests/compiled`. These files are not named as tests are: without a compiled program there is nothing to test. */
export async function compiledTests(report: string, progress: Progress): Promise<Isolated> {
  const plain = await compile({}, progress);
  const withModel = await compile({ isWithModel: true }, progress);
  const files: string[] = [];
  for await (const entry of Deno.readDir(join(ROOT, FOLDER))) if (entry.name.endsWith("_check.ts")) files.push(join(FOLDER, entry.name));
  // Later there is no network to fetch the tests' own packages.
  await runCommand([Deno.execPath(), "cache", ...files], { cwd: ROOT });
  const { command, env } = await withoutNetwork([Deno.execPath(), "test", "-A", "--cached-only", "--junit-path", report, ...files.sort()]);
  return { command, env: { ...env, ROWLOCK_COMPILED: plain.path, ROWLOCK_COMPILED_WITH_MODEL: withModel.path } };
}
