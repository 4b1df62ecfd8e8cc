/** `deno task serve`: sets up what is missing, then does what `main.ts serve` does. */
import { parseArguments } from "../src/cli/parse_arguments.ts";
import { runCli } from "../src/cli/run_cli.ts";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { ensureLibrary } from "./build_ffi.ts";
import { ensureModel } from "./setup.ts";

/** Nothing is built or fetched for a command line that serves nothing; `runCli` says what is wrong with it. */
function wantsToServe(args: readonly string[]): { readonly needsDefaultModel: boolean } | null {
  try {
    const invocation = parseArguments(args);
    if (invocation.kind !== "run" || invocation.command.name !== "serve") return null;
    return { needsDefaultModel: invocation.settings["model"] === null };
  } catch {
    return null;
  }
}

async function prepare(args: readonly string[]): Promise<void> {
  const wanted = wantsToServe(args);
  if (wanted === null) return;
  const progress = new TerminalProgress();
  Deno.env.set("ROWLOCK_LIBRARY", await ensureLibrary(progress));
  if (wanted.needsDefaultModel) await ensureModel(progress);
}

if (import.meta.main) {
  try {
    await prepare(Deno.args);
  } catch (error) {
    console.error(`rowlock: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
  Deno.exit(await runCli(Deno.args));
}
