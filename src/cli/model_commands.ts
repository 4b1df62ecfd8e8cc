/** The commands about models on this machine. */
import { type Command, defineCommand } from "./command.ts";
import { SERVE_GROUPS } from "./arguments.ts";
import { list } from "./list.ts";
import { pull } from "./pull.ts";
import { remove, REMOVE_FLAGS } from "./remove.ts";
import { RUN_FLAGS, runModel } from "./run_model.ts";

const RUN = defineCommand({
  name: "run",
  summary: "Chat with a model at the terminal; MODEL as for serve --model",
  positionals: [{ name: "MODEL", isOptional: true }],
  flags: RUN_FLAGS,
  groups: SERVE_GROUPS,
  examples: ["rowlock run", 'rowlock run model.gguf --system "Answer in one sentence."'],
  // Which model it is shows only in the arguments, so what the default one needs is kept.
  needs: () => ["net", "write", "ffi", "run"],
  run: (settings, [name]) => runModel(name ?? null, settings),
});

const PULL = defineCommand({
  name: "pull",
  summary:
    "Fetch models (org/name, @revision and :file-pattern as for serve) into the cache that Python's tools share, or bring them up to date",
  positionals: [{ name: "MODEL", isRepeatable: true }],
  flags: {},
  examples: ["rowlock pull Qwen/Qwen2.5-0.5B-Instruct", "rowlock pull org/some-model-GGUF:Q4_K_M"],
  needs: () => ["net", "write"],
  run: (_, names) => pull(names),
});

const LIST = defineCommand({
  name: "list",
  summary: "List the models on this machine with their sizes, and what can be served",
  flags: {},
  needs: () => [],
  run: () => list(),
});

const REMOVE = defineCommand({
  name: "rm",
  summary:
    "Remove models that were fetched: a repository, one revision or file of it, or a file of Rowlock's own cache, as list names them",
  positionals: [{ name: "MODEL", isRepeatable: true }],
  flags: REMOVE_FLAGS,
  examples: ["rowlock rm Qwen/Qwen2.5-0.5B-Instruct --yes"],
  needs: () => ["write"],
  run: (settings, names) => remove(names, settings),
});

export const MODEL_COMMANDS: readonly Command[] = [RUN, PULL, LIST, REMOVE];
