/** The table of flags as text: for `--help` and for the README. */
import { flagName, SERVE_FLAGS } from "./arguments.ts";
import type { Flag } from "./flags.ts";

interface HelpLine {
  readonly usage: string;
  readonly help: string;
}

const SWITCHES: readonly HelpLine[] = [
  { usage: "-h, --help", help: "Print this text" },
  { usage: "-V, --version", help: "Print the version" },
];

/** The text of `--help`. */
export function helpText(): string {
  const lines = [...serveLines(" (default: ", ")"), ...SWITCHES];
  const width = Math.max(...lines.map(({ usage }) => usage.length));
  const flags = lines.map(({ usage, help }) => `  ${usage.padEnd(width)}  ${help}`);
  return [
    "Rowlock serves a language model to many at once, OpenAI-compatible, every request with its own sampling.",
    "",
    "Usage: rowlock [serve] [flags]",
    "",
    ...flags,
  ].join("\n");
}

/** The flags as a Markdown table, as the README shows them. */
export function flagTable(): string {
  const rows = Object.entries(SERVE_FLAGS).map(([key, flag]: [string, Flag<unknown>]) =>
    `| \`${escapeCell(usageOf(key, flag))}\` | ${escapeCell(flag.defaultText)} | ${escapeCell(flag.help)} |`
  );
  const switches = SWITCHES.map(({ usage, help }) => `| \`${usage}\` | | ${help} |`);
  return ["| flag | default | |", "| --- | --- | --- |", ...rows, ...switches].join("\n");
}

function serveLines(open: string, close: string): HelpLine[] {
  return Object.entries(SERVE_FLAGS).map(([key, flag]: [string, Flag<unknown>]) => ({
    usage: usageOf(key, flag),
    help: flag.defaultText === "" ? flag.help : `${flag.help}${open}${flag.defaultText}${close}`,
  }));
}

function usageOf(key: string, flag: Flag<unknown>): string {
  return `--${flagName(key)} ${flag.placeholder}`;
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|");
}
