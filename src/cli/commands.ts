/** Every command of `rowlock`, in the order of the help. A new one is a line here; all else follows from it. */
import { SERVE_FLAGS } from "./arguments.ts";
import { type Command, defineCommand } from "./command.ts";
import { completionScript, type Shell, SHELLS } from "./completions.ts";
import { serve } from "./serve.ts";

const SERVE = defineCommand({
  name: "serve",
  summary: "Serve a model over HTTP; the command when none is named",
  flags: SERVE_FLAGS,
  needs: () => ["net", "write", "ffi", "run"],
  run: (settings) => serve(settings),
});

const COMPLETIONS = defineCommand({
  name: "completions",
  summary: "Print completions for a shell, to be read by its start-up file",
  positionals: [{ name: "SHELL", choices: SHELLS }],
  flags: {},
  needs: () => [],
  run: (_, [shell]) => Promise.resolve(console.log(completionScript(shell as Shell, COMMANDS))),
});

export const COMMANDS: readonly Command[] = [SERVE, COMPLETIONS];

/** What `rowlock` does when no command is named. */
export const DEFAULT_COMMAND: Command = SERVE;
