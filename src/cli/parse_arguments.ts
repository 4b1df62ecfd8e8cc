/** A command line's texts become a command, its settings and its positional arguments. */
import { parseArgs } from "node:util";
import { type Command, flagName } from "./command.ts";
import { COMMANDS, DEFAULT_COMMAND } from "./commands.ts";
import { didYouMean } from "./did_you_mean.ts";
import { UsageError } from "./flags.ts";

export type Invocation =
  | { readonly kind: "run"; readonly command: Command; readonly settings: Settings; readonly positionals: readonly string[] }
  /** `command` is null for the help of all. */
  | { readonly kind: "help"; readonly command: Command | null }
  | { readonly kind: "version" };

const HELP = "help";

type Settings = Readonly<Record<string, unknown>>;

/**
 * What the arguments ask for. The command comes first; without one it is `serve`, and `help` shows another one's help.
 * @throws {UsageError}
 */
export function parseArguments(args: readonly string[]): Invocation {
  const [first, ...rest] = args;
  if (first === HELP) return parseHelp(rest.filter((text) => !text.startsWith("-")));
  const isNamed = first !== undefined && !first.startsWith("-");
  const command = isNamed ? findCommand(first) : DEFAULT_COMMAND;
  const { values, positionals } = readArguments(command, isNamed ? args.slice(1) : args);
  if (values.has("help")) return { kind: "help", command: isNamed ? command : null };
  if (values.has("version")) return { kind: "version" };
  checkPositionals(command, positionals);
  return { kind: "run", command, settings: parseSettings(command, values), positionals };
}

function parseHelp([name, ...more]: readonly string[]): Invocation {
  if (more.length > 0) throw new UsageError(`Unexpected argument "${more[0]}"; help takes one command`);
  return { kind: "help", command: name === undefined || name === HELP ? null : findCommand(name) };
}

/** The command that the arguments name; null when they name none. */
export function typedCommand([first]: readonly string[]): Command | null {
  return COMMANDS.find(({ name }) => name === first) ?? null;
}

function findCommand(name: string): Command {
  const command = typedCommand([name]);
  if (command !== null) return command;
  const names = COMMANDS.map((candidate) => candidate.name);
  const meant = didYouMean(name, names) || meantAsModel(name, DEFAULT_COMMAND);
  throw new UsageError(`Unknown command "${name}"${meant || `; expected one of ${names.join(", ")}`}`);
}

/** What to say of a model that stands alone, where a flag has to name it. */
function meantAsModel(text: string, { flags }: Command): string {
  return flags["model"] !== undefined && /\/|\.gguf$/i.test(text) ? `; did you mean --model ${text}?` : "";
}

function checkPositionals(command: Command, found: readonly string[]): void {
  const { name, positionals: places } = command;
  const missing = places.find((place, index) => !place.isOptional && found[index] === undefined);
  if (missing !== undefined) {
    const wanted = missing.choices === undefined ? missing.name : `one of ${missing.choices.join(", ")}`;
    throw new UsageError(`${name} needs ${wanted}; found nothing`);
  }
  const isOpenEnded = places.at(-1)?.isRepeatable ?? false;
  if (!isOpenEnded && found.length > places.length) {
    const takes = places.length === 0 ? "no arguments" : `${places.length} at most`;
    const text = found[places.length]!;
    throw new UsageError(`Unexpected argument "${text}"${meantAsModel(text, command) || `; ${name} takes ${takes}`}`);
  }
  for (const [index, value] of found.entries()) {
    const { choices } = places[Math.min(index, places.length - 1)] ?? {};
    if (choices !== undefined && !choices.includes(value)) {
      throw new UsageError(`${name} takes one of ${choices.join(", ")}; found "${value}"`);
    }
  }
}

function parseSettings({ flags }: Command, values: ReadonlyMap<string, readonly string[]>): Settings {
  return Object.fromEntries(
    Object.entries(flags).map(([key, flag]): [string, unknown] => {
      const found = values.get(flagName(key));
      return [key, found === undefined ? flag.default : flag.parse(found, `--${flagName(key)}`)];
    }),
  );
}

function readArguments(
  { name: command, flags }: Command,
  args: readonly string[],
): { values: Map<string, string[]>; positionals: string[] } {
  const switches = {
    help: { type: "boolean", short: "h", multiple: true },
    version: { type: "boolean", short: "V", multiple: true },
  } as const;
  const options = Object.entries(flags).map(([key, { isSwitch }]) =>
    [flagName(key), { type: isSwitch ? "boolean" : "string", multiple: true }] as const
  );
  try {
    const parsed = parseArgs({
      args: joinNumbers(args, options.filter(([, { type }]) => type === "string").map(([name]) => `--${name}`)),
      options: { ...Object.fromEntries(options), ...switches },
      allowPositionals: true,
      strict: true,
    });
    const values = Object.entries(parsed.values).map(([name, found]): [string, string[]] => [name, [found ?? []].flat().map(String)]);
    return { values: new Map(values), positionals: parsed.positionals };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const unknown = /^Unknown option '(--?[^']*)'/.exec(error.message)?.[1];
    if (unknown === undefined) throw new UsageError(missingValue(error.message, args) ?? firstSentence(error.message));
    const names = [...options, ...Object.entries(switches)].map(([name]) => `--${name}`);
    const typed = asTyped(unknown, args);
    throw new UsageError(`Unknown flag ${typed} of ${command}${didYouMean(typed.replace(/^-(?=[^-]{2})/, "--"), names)}`);
  }
}

/** `--port -1` as `--port=-1`: to Node a value with a dash before it looks like the next flag, and its range would not be told. */
function joinNumbers(args: readonly string[], names: readonly string[]): string[] {
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end);
  const isJoined = (index: number): boolean => /^-[\d.]/.test(flags[index] ?? "") && names.includes(flags[index - 1] ?? "");
  const joined = flags.flatMap((arg, index) => isJoined(index) ? [] : isJoined(index + 1) ? [`${arg}=${flags[index + 1]}`] : [arg]);
  return end < 0 ? joined : [...joined, ...args.slice(end)];
}

/** A flag at the end, or right before the next one; null when Node's message tells something else. */
function missingValue(message: string, args: readonly string[]): string | null {
  const [, name, fault] = /^Option '(--\S+?)(?: <value>)?' argument (missing|is ambiguous)/.exec(message) ?? [];
  if (name === undefined) return null;
  if (fault === "missing") return `${name} has no value`;
  const next = args.find((arg, index) => args[index - 1] === name && arg.startsWith("-"));
  return `${name} has no value; found ${next} behind it (if that is the value, write ${name}=${next})`;
}

/** With one dash, every letter is a flag to Node: of `-port` it tells no more than `-p`. */
function asTyped(unknown: string, args: readonly string[]): string {
  const whole = unknown.startsWith("--") ? undefined : args.find((arg) => arg.startsWith(unknown));
  return whole?.replace(/=.*/s, "") ?? unknown;
}

/** Node's messages go on with advice about `--`, which takes no part in these commands. */
function firstSentence(message: string): string {
  return message.split(/\.\s|\n/)[0] ?? message;
}
