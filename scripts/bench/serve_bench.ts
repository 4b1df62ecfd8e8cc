/** `deno task bench`: sets up what is missing, then does what `main.ts bench` does. */
import { parseArguments } from "../../src/cli/parse_arguments.ts";
import { runCli } from "../../src/cli/run_cli.ts";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { ensureModel } from "../setup.ts";

/** Nothing is built or fetched for a command line that starts no server; `runCli` says what is wrong with it. */
async function prepare(args: readonly string[]): Promise<void> {
  const invocation = parseArguments(args);
  if (invocation.kind !== "run" || invocation.settings["url"] !== null) return;
  const progress = new TerminalProgress();
  Deno.env.set("ROWLOCK_LIBRARY", await ensureLibrary(progress));
  if (invocation.settings["model"] === null) await ensureModel(progress);
}

if (import.meta.main) {
  const args = ["bench", ...Deno.args];
  try {
    await prepare(args);
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
  Deno.exit(await runCli(args));
}
