/** The table of commands and flags as text: for `--help` and for the README. */
import { type Command, flagName, type FlagTable, usageLine } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import type { Flag } from "./flags.ts";

interface HelpLine {
  readonly usage: string;
  readonly help: string;
}

/** Of a terminal that nobody has made wider. */
const MAX_COLUMNS = 100;
/** A longer usage stands on a line of its own. */
const MAX_USAGE_COLUMNS = 30;

const SWITCHES: readonly HelpLine[] = [
  { usage: "-h, --help", help: "Print this text" },
  { usage: "-V, --version", help: "Print the version and what it was built from" },
];
const EXAMPLES = ["rowlock", "rowlock --model Qwen/Qwen2.5-0.5B-Instruct --port 9000", "rowlock run model.gguf"];

/** The text of `rowlock --help`: the commands. */
export function helpText(): string {
  return [
    "Rowlock serves language models to many at once, OpenAI-compatible, every request with its own sampling.",
    "",
    "Usage: rowlock [COMMAND] [flags]",
    "",
    ...aligned(COMMANDS.map(({ name, summary }) => ({ usage: name, help: summary }))),
    "",
    ...aligned(SWITCHES),
    ...exampleLines(EXAMPLES),
    "",
    "The flags of a command: rowlock help COMMAND, or rowlock COMMAND --help.",
    "Flags without a command are those of serve: rowlock help serve.",
  ].flatMap((line) => wrapped(line, MAX_COLUMNS)).join("\n");
}

/** The text of `rowlock COMMAND --help`. */
export function commandHelp(command: Command): string {
  const { summary, flags, groups, examples } = command;
  const grouped = groups.flatMap(({ keys }) => keys);
  const others = flagLines(flags, Object.keys(flags).filter((key) => !grouped.includes(key)));
  const sections = groups.map(({ title, keys }) => ({ title, lines: flagLines(flags, keys.filter((key) => Object.hasOwn(flags, key))) }));
  return [
    ...wrapped(`${summary}.`, MAX_COLUMNS),
    "",
    `Usage: ${usageLine(command)}`,
    "",
    ...aligned([...others, ...SWITCHES]),
    ...sections.filter(({ lines }) => lines.length > 0).flatMap(({ title, lines }) => ["", `${title}:`, ...aligned(lines)]),
    ...exampleLines(examples),
  ].join("\n");
}

/** All commands with their flags as Markdown, as the README shows them; `deno task docs` writes it there. */
export function flagPage(): string {
  return COMMANDS.map((command) => `#### \`${usageLine(command)}\`\n\n${command.summary}.${flagTable(command.flags)}`).join("\n\n");
}

function flagTable(flags: FlagTable): string {
  const rows = Object.entries(flags).map(([key, flag]) =>
    `| \`${escapeCell(usageOf(key, flag))}\` | ${escapeCell(flag.defaultText)} | ${escapeCell(flag.help)} |`
  );
  return rows.length === 0 ? "" : ["\n", "| flag | default | |", "| --- | --- | --- |", ...rows].join("\n");
}

function flagLines(flags: FlagTable, keys: readonly string[]): HelpLine[] {
  return keys.map((key) => {
    const flag = flags[key]!;
    return { usage: usageOf(key, flag), help: flag.defaultText === "" ? flag.help : `${flag.help} (default: ${flag.defaultText})` };
  });
}

function exampleLines(examples: readonly string[]): string[] {
  return examples.length === 0 ? [] : ["", "Examples:", ...examples.map((example) => `  ${example}`)];
}

/** Two columns: usages, and what they mean in as many lines as it takes. */
function aligned(lines: readonly HelpLine[]): string[] {
  const width = Math.max(0, ...lines.map(({ usage }) => usage.length).filter((length) => length <= MAX_USAGE_COLUMNS));
  const indent = " ".repeat(width + 4);
  return lines.flatMap(({ usage, help }) => {
    const [first = "", ...rest] = wrapped(help, MAX_COLUMNS - indent.length);
    const more = rest.map((line) => indent + line);
    return usage.length > width ? [`  ${usage}`, indent + first, ...more] : [`  ${usage.padEnd(width)}  ${first}`, ...more];
  });
}

/** Lines of at most `numColumns`, broken between words. A line that fits stays as it is, with the spaces that it begins with. */
function wrapped(text: string, numColumns: number): string[] {
  if (text.length <= numColumns) return [text];
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > numColumns) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

function usageOf(key: string, flag: Flag<unknown>): string {
  return `--${flagName(key)} ${flag.placeholder}`.trimEnd();
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|");
}
