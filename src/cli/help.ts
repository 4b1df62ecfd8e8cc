/** The table of commands and flags as text: for `--help` and for the README. */
import { type Command, flagName, type FlagTable, usageLine } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import type { Flag } from "./flags.ts";

interface HelpLine {
  readonly usage: string;
  readonly help: string;
}

const SWITCHES: readonly HelpLine[] = [
  { usage: "-h, --help", help: "Print this text" },
  { usage: "-V, --version", help: "Print the version and what it was built from" },
];

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
    "",
    "The flags of a command: rowlock COMMAND --help",
  ].join("\n");
}

/** The text of `rowlock COMMAND --help`. */
export function commandHelp(command: Command): string {
  return [`${command.summary}.`, "", `Usage: ${usageLine(command)}`, "", ...aligned([...flagLines(command.flags), ...SWITCHES])].join("\n");
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

function flagLines(flags: FlagTable): HelpLine[] {
  return Object.entries(flags).map(([key, flag]) => ({
    usage: usageOf(key, flag),
    help: flag.defaultText === "" ? flag.help : `${flag.help} (default: ${flag.defaultText})`,
  }));
}

function aligned(lines: readonly HelpLine[]): string[] {
  const width = Math.max(...lines.map(({ usage }) => usage.length));
  return lines.map(({ usage, help }) => `  ${usage.padEnd(width)}  ${help}`);
}

function usageOf(key: string, flag: Flag<unknown>): string {
  return `--${flagName(key)} ${flag.placeholder}`.trimEnd();
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|");
}
