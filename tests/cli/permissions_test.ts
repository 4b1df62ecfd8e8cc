import { assertEquals } from "@std/assert";
import { COMMANDS } from "../../src/cli/commands.ts";
import type { Command, Need } from "../../src/cli/command.ts";
import { parseArguments } from "../../src/cli/parse_arguments.ts";

/** Permissions that a process has left after `keepOnly`, and that a worker has which it starts then. */
async function left(needs: readonly Need[]): Promise<unknown> {
  const module = new URL("../../src/cli/permissions.ts", import.meta.url).href;
  const ask = `["read", "net", "write", "ffi", "run"].filter((name) => Deno.permissions.querySync({ name }).state === "granted")`;
  const code = `
    import { keepOnly } from "${module}";
    keepOnly(${JSON.stringify(needs)});
    const worker = new Worker("data:text/javascript," + encodeURIComponent('postMessage(${ask})'.replaceAll("'", '"')), { type: "module" });
    worker.onmessage = ({ data }) => (console.log(JSON.stringify({ own: ${ask}, worker: data })), worker.terminate());`;
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, code);
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args: ["run", "-A", "--no-check", file] }).output();
    return JSON.parse(new TextDecoder().decode(stdout) || new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("what a command does not need is given up, for its workers too", async () => {
  assertEquals(await left(["net", "ffi"]), { own: ["read", "net", "ffi"], worker: ["read", "net", "ffi"] });
});

function needsOf(...args: string[]): readonly Need[] {
  const invocation = parseArguments(args);
  if (invocation.kind !== "run") throw new Error(`expected a command, found ${invocation.kind}`);
  return (invocation.command as Command).needs(invocation.settings);
}

Deno.test("a server starts other programs only to fetch the default model, and a supervisor does nothing else", () => {
  assertEquals(needsOf("--model", "a.gguf").includes("run"), false);
  assertEquals(needsOf().includes("run"), true);
  assertEquals(needsOf("--supervise", "--model", "a.gguf"), ["run"]);
  assertEquals(needsOf("completions", "bash"), []);
});

Deno.test("no command needs what its table does not know", () => {
  for (const command of COMMANDS) {
    const defaults = Object.fromEntries(Object.entries(command.flags).map(([key, flag]) => [key, flag.default]));
    for (const need of command.needs(defaults)) {
      assertEquals(["net", "write", "ffi", "run"].includes(need), true, `${command.name}: ${need}`);
    }
  }
});
