import { readBundle } from "./bundle.ts";
import { DEFAULT_COMMAND } from "./commands.ts";
import { UsageError } from "./flags.ts";
import { commandHelp, helpText } from "./help.ts";
import { type Invocation, parseArguments, typedCommand } from "./parse_arguments.ts";
import { keepOnly } from "./permissions.ts";
import { CANNOT_START } from "./supervise.ts";
import { isSupervised } from "./supervised.ts";
import { versionText } from "./version.ts";

/** Exit codes, as shells expect them. */
const OK = 0;
const FAILED = 1;
const BAD_USAGE = 2;

/** Does what the arguments say and gives the exit code. Every failure is one line on standard error. */
export async function runCli(args: readonly string[]): Promise<number> {
  try {
    return await runInvocation(parseArguments(args));
  } catch (error) {
    const message = oneLine(error);
    if (error instanceof UsageError) {
      console.error(`rowlock: ${message} (see ${helpFor(args)})`);
      return BAD_USAGE;
    }
    console.error(`rowlock: ${message}`);
    return isSupervised() ? CANNOT_START : FAILED;
  }
}

async function runInvocation(invocation: Invocation): Promise<number> {
  switch (invocation.kind) {
    case "help":
      console.log(invocation.command === null ? helpText() : commandHelp(invocation.command));
      return OK;
    case "version":
      console.log(versionText(readBundle()?.facts ?? null));
      return OK;
    case "run": {
      const { command, settings, positionals } = invocation;
      // From a checkout, `deno run` was given what the person who runs it wants it to have.
      if (Deno.build.standalone) keepOnly(command.needs(settings));
      return await command.run(settings, positionals) ?? OK;
    }
  }
}

/** The help of the command that was typed; flags without one are those of serving. */
function helpFor(args: readonly string[]): string {
  const name = typedCommand(args)?.name ?? (args[0]?.startsWith("-") ? DEFAULT_COMMAND.name : null);
  return name === null ? "rowlock --help" : `rowlock ${name} --help`;
}

function oneLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.trim().replace(/\s*\n\s*/g, "; ");
}
