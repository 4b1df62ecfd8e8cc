/** Every command of `rowlock`, in the order of the help. A new one is a line here; all else follows from it. */
import { SERVE_FLAGS, SERVE_GROUPS, type ServeSettings } from "./arguments.ts";
import { bench, BENCH_FLAGS } from "./bench/bench.ts";
import { type Command, defineCommand, type Need } from "./command.ts";
import { completionScript, type Shell, SHELLS } from "./completions.ts";
import { doctor } from "./doctor.ts";
import { MODEL_COMMANDS } from "./model_commands.ts";
import { serve } from "./serve.ts";
import { supervise } from "./supervise.ts";
import { needsDefaultModel } from "./serve_models.ts";
import { isSupervised } from "./supervised.ts";

const SERVE = defineCommand({
  name: "serve",
  summary: "Serve a model over HTTP; the command when none is named",
  flags: SERVE_FLAGS,
  groups: SERVE_GROUPS,
  examples: [
    "rowlock serve --model Qwen/Qwen2.5-0.5B-Instruct --max-context 4096",
    "rowlock serve --host 0.0.0.0 --api-key-file keys.txt",
  ],
  needs: serveNeeds,
  run: (settings) => isSupervisor(settings) ? supervise(Deno.args) : serve(settings),
});

const BENCH = defineCommand({
  name: "bench",
  summary: "Measure tokens per second and time to first token at several numbers of requests",
  flags: BENCH_FLAGS,
  examples: ["rowlock bench --rows 1,8", "rowlock bench --url http://127.0.0.1:8080"],
  needs: () => ["net", "run"],
  run: (settings) => bench(settings),
});

const DOCTOR = defineCommand({
  name: "doctor",
  summary: "Say what device, library, memory, cache and model are here, and what is wrong with them",
  flags: {},
  needs: () => ["net", "write", "ffi"],
  run: () => doctor(),
});

const COMPLETIONS = defineCommand({
  name: "completions",
  summary: "Print a script that makes the Tab key complete commands, flags and their values",
  positionals: [{ name: "SHELL", choices: SHELLS }],
  flags: {},
  examples: [
    "rowlock completions bash >> ~/.bashrc    # installs it; it works in new shells",
    "rowlock completions zsh >> ~/.zshrc      # installs it; it works in new shells",
    "rowlock completions fish > ~/.config/fish/completions/rowlock.fish",
  ],
  needs: () => [],
  run: (_, [shell]) => Promise.resolve(console.log(completionScript(shell as Shell, COMMANDS))),
});

export const COMMANDS: readonly Command[] = [SERVE, ...MODEL_COMMANDS, BENCH, DOCTOR, COMPLETIONS];

/** What `rowlock` does when no command is named. */
export const DEFAULT_COMMAND: Command = SERVE;

function isSupervisor({ supervise }: ServeSettings): boolean {
  return supervise && !isSupervised();
}

function serveNeeds(settings: ServeSettings): readonly Need[] {
  if (isSupervisor(settings)) return ["run"];
  // Python's pip brings the default model.
  return ["net", "write", "ffi", ...(needsDefaultModel(settings) ? ["run" as const] : [])];
}
