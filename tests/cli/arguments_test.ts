import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import type { ServeSettings } from "../../src/cli/arguments.ts";
import { flagName, usageLine } from "../../src/cli/command.ts";
import { COMMANDS, DEFAULT_COMMAND } from "../../src/cli/commands.ts";
import { UsageError } from "../../src/cli/flags.ts";
import { commandHelp, flagPage, helpText } from "../../src/cli/help.ts";
import { type Invocation, parseArguments } from "../../src/cli/parse_arguments.ts";

function settingsOf(...args: string[]): ServeSettings {
  const invocation = parseArguments(args);
  if (invocation.kind !== "run" || invocation.command.name !== "serve") throw new Error(`expected serve, found ${describe(invocation)}`);
  return invocation.settings as ServeSettings;
}

/** `help`, `help pull`, `version`, `run serve` */
function describe(invocation: Invocation): string {
  return invocation.kind === "version" ? "version" : [invocation.kind, invocation.command?.name].filter(Boolean).join(" ");
}

Deno.test("no arguments at all serve the default model with the documented defaults", () => {
  assertEquals(settingsOf(), {
    model: null,
    models: null,
    memory: null,
    dtype: "auto",
    kvBits: "auto",
    idleUnload: null,
    host: "127.0.0.1",
    port: 8080,
    maxBatch: 16,
    maxContext: null,
    prefillChunk: 256,
    prefixCacheMb: 512,
    prefixCacheDisk: null,
    prefixCacheDiskMb: null,
    maxQueue: 256,
    batchInvariant: false,
    noSpeculation: false,
    draftModel: null,
    draftKind: "auto",
    draftTokens: null,
    apiKey: [],
    apiKeyFile: null,
    allowOrigin: [],
    allowHost: [],
    maxBody: 16,
    bodyTimeout: 60,
    keepAlive: 10,
    requestTimeout: 600,
    drainTimeout: 30,
    supervise: false,
    logLevel: "info",
    logFormat: "text",
  });
});

Deno.test("every kind of flag takes its value with a space or an equals sign", () => {
  const settings = settingsOf(
    "serve",
    "--model",
    "a b.gguf",
    "--port=0",
    "--max-batch",
    "8",
    "--drain-timeout",
    "2.5",
    "--log-format=json",
  );
  assertEquals([settings.model, settings.port, settings.maxBatch], ["a b.gguf", 0, 8]);
  assertEquals([settings.drainTimeout, settings.logFormat], [2.5, "json"]);
});

Deno.test("a switch is on when it is there, however often, and takes no value", () => {
  assertEquals(settingsOf("--batch-invariant").batchInvariant, true);
  assertEquals(settingsOf("--batch-invariant", "--port", "0", "--batch-invariant").batchInvariant, true);
  assertThrows(() => parseArguments(["--batch-invariant=yes"]), UsageError, "--batch-invariant");
  assertThrows(() => parseArguments(["--batch-invariant", "yes"]), UsageError, '"yes"');
});

Deno.test("repeatable flags keep all their values in order and the others refuse a second one", () => {
  assertEquals(settingsOf("--api-key", "one", "--api-key", "two").apiKey, ["one", "two"]);
  assertThrows(() => parseArguments(["--port", "1", "--port", "2"]), UsageError, "--port is given 2 times, expected once");
});

Deno.test("a value outside its domain is refused with the flag, the value and what is allowed", () => {
  const cases: [string, string, string][] = [
    ["--port", "65536", '--port is "65536", expected a whole number from 0 to 65535'],
    ["--port", "80x", '--port is "80x", expected a whole number from 0 to 65535'],
    ["--max-batch", "0", '--max-batch is "0", expected a whole number from 1 to 1024'],
    ["--max-batch", "1e2", "expected a whole number"],
    ["--max-context", "1.5", "expected a whole number from 16 to 2147483647"],
    ["--request-timeout", "soon", '--request-timeout is "soon", expected seconds from 0 to 86400'],
    ["--log-level", "loud", '--log-level is "loud", expected one of info, warn, error'],
    ["--host", "", "--host has an empty value"],
    ["--api-key", "", "--api-key has an empty value"],
  ];
  for (const [flag, value, message] of cases) assertThrows(() => parseArguments([`${flag}=${value}`]), UsageError, message);
});

/** `help serve`, or what is wrong with the arguments. */
function outcome(...args: string[]): string {
  try {
    const invocation = parseArguments(args);
    return `${describe(invocation)} ${JSON.stringify(invocation.kind === "run" ? invocation.settings : null)}`;
  } catch (error) {
    return (error as UsageError).message;
  }
}

Deno.test("a number below zero is a value, with a space as with an equals sign, and every flag for numbers tells its range", () => {
  let numRanges = 0;
  for (const command of COMMANDS) {
    const places = command.positionals.map(({ name, choices }) => choices?.[0] ?? name);
    for (const key of Object.keys(command.flags).filter((key) => !command.flags[key]!.isSwitch)) {
      const flag = `--${flagName(key)}`;
      for (const value of ["-1", "-.5", "-1e9"]) {
        const found = outcome(command.name, ...places, flag, value);
        assertEquals(found, outcome(command.name, ...places, `${flag}=${value}`));
        if (!/expected .* from /.test(outcome(command.name, ...places, `${flag}=many`))) continue;
        numRanges++;
        assertMatch(found, new RegExp(`^${flag} is "${value}", expected [a-z ]+ from [\\d.]+ to \\d+$`));
      }
    }
  }
  assert(numRanges >= 3 * 20, `${numRanges}`);
});

Deno.test("a flag without its value is named, with what stands in the value's place", () => {
  const cases: [string[], string][] = [
    [["--port"], "--port has no value"],
    [["--port", "1", "--port"], "--port has no value"],
    [["--port", "--model", "x"], "--port has no value; found --model behind it (if that is the value, write --port=--model)"],
    [["--api-key", "a", "--api-key", "-b"], "--api-key has no value; found -b behind it (if that is the value, write --api-key=-b)"],
    [["--", "--port", "-1"], 'Unexpected argument "--port"; serve takes no arguments'],
  ];
  for (const [args, message] of cases) assertEquals(assertThrows(() => parseArguments(args), UsageError).message, message);
  assertEquals(settingsOf("--api-key=-b", "--api-key", "-1").apiKey, ["-b", "-1"]);
});

Deno.test("origins and host names that no browser sends are refused, with the one that was meant", () => {
  const cases = [
    ["--allow-origin", "notaorigin", "expected * or an origin such as http://localhost:3000"],
    ["--allow-origin", "localhost:3000", "expected * or an origin"],
    ["--allow-origin", "http://localhost:3000/", "expected http://localhost:3000"],
    ["--allow-origin", "https://Chat.Example:443/app", "expected https://chat.example"],
    ["--allow-origin", "null", "expected * or an origin"],
    ["--allow-host", "http://proxy", "expected * or a name"],
    ["--allow-host", "proxy:80", "expected * or a name"],
  ] as const;
  for (const [flag, value, message] of cases) {
    assertThrows(() => parseArguments([flag, value]), UsageError, `${flag} is "${value}", ${message}`);
  }
  const good = ["*", "http://localhost:3000", "https://chat.example", "chrome-extension://abcdef", "http://[::1]:8080"];
  assertEquals(describe(parseArguments(good.flatMap((value) => ["--allow-origin", value]))), "run serve");
  assertEquals(describe(parseArguments(["--allow-host", "proxy.lan", "--allow-host", "[fd00::1]", "--allow-host", "*"])), "run serve");
});

Deno.test("unknown flags, commands and arguments are refused by name", () => {
  assertThrows(() => parseArguments(["--batch", "3"]), UsageError, "--batch");
  assertThrows(() => parseArguments(["dance"]), UsageError, 'Unknown command "dance"; expected one of serve, ');
  assertThrows(() => parseArguments(["serve", "model.gguf"]), UsageError, 'Unexpected argument "model.gguf"');
  assertThrows(() => parseArguments(["--port"]), UsageError, "--port");
});

Deno.test("help and version win over everything that stands beside them", () => {
  assertEquals(describe(parseArguments(["serve", "--port", "0", "--help"])), "help serve");
  assertEquals(describe(parseArguments(["-h"])), "help");
  assertEquals(describe(parseArguments(["--port", "0", "-h"])), "help");
  assertEquals(describe(parseArguments(["--version"])), "version");
  assertEquals(describe(parseArguments(["completions", "-V"])), "version");
});

Deno.test("positional arguments are counted and checked", () => {
  assertEquals(describe(parseArguments(["completions", "bash"])), "run completions");
  assertThrows(() => parseArguments(["completions"]), UsageError, "completions needs one of bash, zsh, fish; found nothing");
  assertThrows(() => parseArguments(["completions", "tcsh"]), UsageError, 'completions takes one of bash, zsh, fish; found "tcsh"');
  assertThrows(() => parseArguments(["completions", "bash", "zsh"]), UsageError, 'Unexpected argument "zsh"');
});

Deno.test("the help of each command names every flag with its default, and the help of all names every command", () => {
  for (const command of COMMANDS) {
    assertStringIncludes(helpText(), `${command.name} `);
    assertStringIncludes(helpText().replace(/\s+/g, " "), command.summary);
    const lines = commandHelp(command).split("\n");
    assertEquals(lines.includes(`Usage: ${usageLine(command)}`), true);
    for (const [key, flag] of Object.entries(command.flags)) {
      const first = lines.findIndex((text) => text.trimStart().startsWith(`--${flagName(key)}`) && /^\s*--\S+( |$)/.test(text));
      const entry = lines.slice(first).join(" ").replace(/\s+/g, " ");
      assertStringIncludes(entry, flag.help);
      if (flag.defaultText !== "") assertStringIncludes(entry, `(default: ${flag.defaultText})`);
    }
  }
});

Deno.test("the help fits into 100 columns, groups the flags, names each once, and ends with examples that can be parsed", () => {
  assertEquals(helpText().split("\n").filter((line) => line.length > 100), []);
  for (const command of COMMANDS) {
    const lines = commandHelp(command).split("\n");
    assertEquals(lines.filter((line) => line.length > 100), []);
    const flags = lines.flatMap((line) => /^ {2}(--[\w-]+)/.exec(line)?.[1] ?? []);
    assertEquals(flags.toSorted(), Object.keys(command.flags).map((key) => `--${flagName(key)}`).toSorted());
    for (const example of command.examples) {
      const [program, ...args] = example.replace(/ >>? .*/, "").replace(/"[^"]*"/, "text").split(" ");
      assertEquals([program, describe(parseArguments(args))], ["rowlock", `run ${command.name}`]);
      assertEquals(lines.includes(`  ${example}`), true);
    }
  }
  const titles = commandHelp(DEFAULT_COMMAND).split("\n").filter((line) => /^\w[\w ]*:$/.test(line));
  assertEquals(titles, ["Model:", "Memory:", "Rows and prompts:", "Drafts:", "Network:", "Limits and logs:", "Examples:"]);
});

Deno.test("every help fits into one line of 140 columns, and so does every line of the command line's source", async () => {
  for (const { flags, summary } of COMMANDS) {
    assertEquals([summary, ...Object.values(flags).map(({ help }) => help)].filter((text) => text.length > 140), []);
  }
  const long: string[] = [];
  const look = async (folder: string): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (isDirectory) await look(`${folder}/${name}`);
      else long.push(...(await Deno.readTextFile(`${folder}/${name}`)).split("\n").filter((line) => line.length > 140));
    }
  };
  await look(new URL("../../src/cli", import.meta.url).pathname);
  assertEquals(long, []);
});

Deno.test("help is a command too, and a slip of the finger is answered with what was meant", () => {
  assertEquals(describe(parseArguments(["help"])), "help");
  assertEquals(describe(parseArguments(["help", "doctor"])), "help doctor");
  assertThrows(() => parseArguments(["help", "dance"]), UsageError, 'Unknown command "dance"; expected one of');
  const slips: [string[], string][] = [
    [["docter"], 'Unknown command "docter"; did you mean doctor?'],
    [["lsit"], 'Unknown command "lsit"; did you mean list?'],
    [["help", "sevre"], 'Unknown command "sevre"; did you mean serve?'],
    [["serve", "--prot", "1"], "Unknown flag --prot of serve; did you mean --port?"],
    [["doctor", "--hlep"], "Unknown flag --hlep of doctor; did you mean --help?"],
    [["list", "--verison"], "Unknown flag --verison of list; did you mean --version?"],
    [["--prot=1"], "Unknown flag --prot of serve; did you mean --port?"],
    [["-port", "1"], "Unknown flag -port of serve; did you mean --port?"],
    [["-port=1"], "Unknown flag -port of serve; did you mean --port?"],
    [["doctor", "--port", "1"], "Unknown flag --port of doctor"],
    [["doctor", "-p", "1"], "Unknown flag -p of doctor"],
  ];
  for (const [args, message] of slips) assertEquals(assertThrows(() => parseArguments(args), UsageError).message, message);
});

Deno.test("a part of a flag's name is answered with the flags that have it, unless they are many", () => {
  const slips: [string[], string][] = [
    [["--context", "9"], "Unknown flag --context of serve; did you mean --max-context?"],
    [["--batch", "3"], "Unknown flag --batch of serve; did you mean --max-batch or --batch-invariant?"],
    [["run", "--cache-disk", "d"], "Unknown flag --cache-disk of run; did you mean --prefix-cache-disk or --prefix-cache-disk-mb?"],
    [["--max", "3"], "Unknown flag --max of serve"],
    [["--", "--port"], 'Unexpected argument "--port"; serve takes no arguments'],
  ];
  for (const [args, message] of slips) assertEquals(assertThrows(() => parseArguments(args), UsageError).message, message);
});

Deno.test("a model that stands alone is answered with the flag that names it", () => {
  const slips: [string[], string][] = [
    [["model.gguf"], 'Unknown command "model.gguf"; did you mean --model model.gguf?'],
    [["Qwen/Qwen2.5-0.5B-Instruct"], 'Unknown command "Qwen/Qwen2.5-0.5B-Instruct"; did you mean --model Qwen/Qwen2.5-0.5B-Instruct?'],
    [["serve", "./folder"], 'Unexpected argument "./folder"; did you mean --model ./folder?'],
    [["doctor", "./folder"], 'Unexpected argument "./folder"; doctor takes no arguments'],
    [["serve", "folder"], 'Unexpected argument "folder"; serve takes no arguments'],
  ];
  for (const [args, message] of slips) assertEquals(assertThrows(() => parseArguments(args), UsageError).message, message);
});

Deno.test("the README shows the commands and flags as the table has them", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  assert(readme.includes(flagPage()), "README.md is behind the table: run deno task docs");
});
