/** `deno task serve`, or `deno task serve run MODEL`: sets up what is missing, then does what `main.ts` does. */
import type { ServeSettings } from "../src/cli/arguments.ts";
import { isDefaultModel } from "../src/cli/model_source.ts";
import { parseArguments } from "../src/cli/parse_arguments.ts";
import { runCli } from "../src/cli/run_cli.ts";
import { needsDefaultModel } from "../src/cli/serve_models.ts";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { ensureLibrary } from "./build_ffi.ts";
import { ensureModel } from "./setup.ts";

/** Nothing is built or fetched for a command line that loads no model; `runCli` says what is wrong with it. */
function wantsModel(args: readonly string[]): { readonly needsDefaultModel: boolean } | null {
  try {
    const invocation = parseArguments(args);
    if (invocation.kind !== "run") return null;
    const { command, settings, positionals } = invocation;
    if (command.name === "run") return { needsDefaultModel: isDefaultModel(positionals[0] ?? null) };
    if (command.name !== "serve") return null;
    return { needsDefaultModel: needsDefaultModel(settings as ServeSettings) };
  } catch {
    return null;
  }
}

async function prepare(args: readonly string[]): Promise<void> {
  const wanted = wantsModel(args);
  if (wanted === null) return;
  const progress = new TerminalProgress();
  Deno.env.set("ROWLOCK_LIBRARY", await ensureLibrary(progress));
  if (wanted.needsDefaultModel) await ensureModel(progress);
}

if (import.meta.main) {
  // Whoever names no command means the task's own, for its help too.
  const args = Deno.args[0]?.startsWith("-") ? ["serve", ...Deno.args] : Deno.args;
  try {
    await prepare(args);
  } catch (error) {
    console.error(`rowlock: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
  Deno.exit(await runCli(args));
}
