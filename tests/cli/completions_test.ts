import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { defineCommand } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import { completionScript, SHELLS } from "../../src/cli/completions.ts";
import { commandHelp } from "../../src/cli/help.ts";
import { choice, onOff, text } from "../../src/cli/flags.ts";

const START = defineCommand({
  name: "start",
  summary: "Start the engine's wheels",
  flags: {
    file: text({ placeholder: "PATH", default: null, help: "A file" }),
    colour: choice({ choices: ["red", "blue"], default: "red", help: "A colour" }),
    veryFast: onOff({ help: "Hurry" }),
  },
  needs: () => [],
  run: () => Promise.resolve(),
});
const PICK = defineCommand({
  name: "pick",
  summary: "Pick one",
  positionals: [{ name: "ONE", choices: ["heads", "tails"] }],
  flags: {},
  needs: () => [],
  run: () => Promise.resolve(),
});

/** What bash offers for the last of these words. */
async function complete(...words: string[]): Promise<string[]> {
  const script = `${completionScript("bash", [START, PICK])}
COMP_WORDS=(${
    ["rowlock", ...words].map((word) => `'${word}'`).join(" ")
  }); COMP_CWORD=${words.length}; _rowlock; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = await new Deno.Command("bash", { args: ["-c", script], stdout: "piped", stderr: "piped" }).output();
  assertEquals(new TextDecoder().decode(stderr), "");
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
}

Deno.test("bash is offered commands, then the flags and values that fit", async () => {
  assertEquals(await complete(""), ["start", "pick"]);
  assertEquals(await complete("pi"), ["pick"]);
  assertEquals(await complete("--ver"), ["--version", "--very-fast"]);
  assertEquals(await complete("start", "--v"), ["--very-fast"]);
  assertEquals(await complete("start", "--colour", ""), ["red", "blue"]);
  assertEquals(await complete("pick", "t"), ["tails"]);
  assertEquals(await complete("start", "--file", ""), [], "files are the shell's own to offer");
});

Deno.test("fish learns every command, flag and value, and apostrophes do not end its strings", () => {
  const script = completionScript("fish", [START, PICK]);
  assertStringIncludes(script, `-a start -d 'Start the engine\\'s wheels'`);
  assertStringIncludes(script, `'__fish_seen_subcommand_from start' -l colour -x -a 'red blue' -d 'A colour'`);
  assertStringIncludes(script, `-l file -r -F -d`);
  assertStringIncludes(script, `-l very-fast -d 'Hurry'`);
  assertStringIncludes(script, `'__fish_seen_subcommand_from pick' -f -a 'heads tails'`);
});

Deno.test("the help has one line for each shell that puts the script where the shell reads it", () => {
  const help = commandHelp(COMMANDS.find(({ name }) => name === "completions")!);
  for (const shell of SHELLS) {
    const lines = help.split("\n").filter((line) => line.startsWith(`  rowlock completions ${shell} >`));
    assertEquals([lines.length, /> ~\/\S+( +#.*)?$/.test(lines[0]!)], [1, true]);
  }
});

Deno.test("every shell's script names every command that there is", () => {
  for (const shell of SHELLS) for (const { name } of COMMANDS) assertStringIncludes(completionScript(shell, COMMANDS), name);
  const zsh = completionScript("zsh", COMMANDS).split("\n");
  assertEquals(zsh[0], "#compdef rowlock");
  // A start-up file need not have set up zsh's own completion, on which that for bash's scripts stands.
  assertMatch(zsh[1]!, /\bcompinit\b/);
});
