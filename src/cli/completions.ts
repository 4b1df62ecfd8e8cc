/** Completions for shells, written from the table of commands. */
import { type Command, flagName } from "./command.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

const ZSH_SETUP = [
  "#compdef rowlock",
  "whence compdef >/dev/null || { autoload -U compinit && compinit; }",
  "autoload -U +X bashcompinit && bashcompinit",
];

/** A script for the shell: what `rowlock completions SHELL` prints. */
export function completionScript(shell: Shell, commands: readonly Command[]): string {
  switch (shell) {
    case "bash":
      return bashScript(commands);
    case "zsh":
      // Zsh runs bash's completions itself, from the same script, once its own are there.
      return [...ZSH_SETUP, bashScript(commands)].join("\n");
    case "fish":
      return fishScript(commands);
  }
}

/** What a flag's value may be: words that a shell offers, or null for a file. */
function valueWords(placeholder: string): readonly string[] | null {
  if (placeholder === "PATH" || placeholder === "MODEL") return null;
  return placeholder.includes("|") ? placeholder.split("|") : [];
}

function bashScript(commands: readonly Command[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const words = commands.map((command) => `    ${command.name}) words="${wordsOf(command).join(" ")}" ;;`);
  return [
    "_rowlock() {",
    '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}" words',
    "  COMPREPLY=()",
    '  case "$previous" in',
    ...valueCases(commands),
    "  esac",
    '  case "$command" in',
    ...words,
    `    *) words="${[names, "--help", "--version", ...flagsOf(commands[0])].join(" ")}" ;;`,
    "  esac",
    `  [ "$COMP_CWORD" -gt 1 ] || [ "\${current#-}" != "$current" ] || words="${names}"`,
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    "}",
    "complete -o default -F _rowlock rowlock",
  ].join("\n");
}

/** After a flag that takes a value: its words, else nothing of ours, so that the shell offers files. */
function valueCases(commands: readonly Command[]): string[] {
  const values = new Map<string, readonly string[]>();
  for (const { flags } of commands) {
    for (const [key, flag] of Object.entries(flags)) {
      if (!flag.isSwitch) values.set(`--${flagName(key)}`, valueWords(flag.placeholder) ?? []);
    }
  }
  return [...values].map(([flag, words]) => {
    const reply = words.length === 0 ? "" : `COMPREPLY=($(compgen -W "${words.join(" ")}" -- "$current")); `;
    return `    ${flag}) ${reply}return ;;`;
  });
}

function wordsOf(command: Command): string[] {
  return [...command.positionals.flatMap(({ choices }) => choices ?? []), ...flagsOf(command), "--help"];
}

function flagsOf(command: Command | undefined): string[] {
  return Object.keys(command?.flags ?? {}).map((key) => `--${flagName(key)}`);
}

function fishScript(commands: readonly Command[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const lines = commands.flatMap((command) => {
    const isChosen = `'__fish_seen_subcommand_from ${command.name}'`;
    const [choices = []] = command.positionals.map((place) => place.choices ?? []);
    return [
      `complete -c rowlock -n 'not __fish_seen_subcommand_from ${names}' -f -a ${command.name} -d ${quoted(command.summary)}`,
      ...(choices.length > 0 ? [`complete -c rowlock -n ${isChosen} -f -a '${choices.join(" ")}'`] : []),
      ...Object.entries(command.flags).map(([key, flag]) => {
        const words = flag.isSwitch ? [] : valueWords(flag.placeholder);
        const value = flag.isSwitch ? "" : words === null ? " -r -F" : words.length > 0 ? ` -x -a '${words.join(" ")}'` : " -x";
        return `complete -c rowlock -n ${isChosen} -l ${flagName(key)}${value} -d ${quoted(flag.help)}`;
      }),
    ];
  });
  return [...lines, `complete -c rowlock -s h -l help -d 'Print the help'`, `complete -c rowlock -s V -l version -d 'Print the version'`]
    .join(
      "\n",
    );
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
