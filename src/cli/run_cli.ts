import { parseArguments } from "./arguments.ts";
import { UsageError } from "./flags.ts";
import { helpText } from "./help.ts";
import { serve } from "./serve.ts";
import { VERSION } from "./version.ts";

/** Exit codes, as shells expect them. */
const OK = 0;
const FAILED = 1;
const BAD_USAGE = 2;

/** Does what the arguments say and gives the exit code. Every failure is one line on standard error. */
export async function runCli(args: readonly string[]): Promise<number> {
  try {
    const invocation = parseArguments(args);
    switch (invocation.command) {
      case "help":
        console.log(helpText());
        return OK;
      case "version":
        console.log(`rowlock ${VERSION}`);
        return OK;
      case "serve":
        await serve(invocation.settings);
        return OK;
    }
  } catch (error) {
    const message = oneLine(error);
    if (error instanceof UsageError) {
      console.error(`rowlock: ${message} (see rowlock --help)`);
      return BAD_USAGE;
    }
    console.error(`rowlock: ${message}`);
    return FAILED;
  }
}

function oneLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.trim().replace(/\s*\n\s*/g, "; ");
}
