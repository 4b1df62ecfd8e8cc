/** What a command of `rowlock` is. `commands.ts` lists them all; parsing, help, completions and the README are made from that list. */
import type { Flag } from "./flags.ts";

/** Flags by their name in code: `maxBatch` is written `--max-batch`. */
export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

type ValueOf<F> = F extends Flag<infer T> ? T : never;
export type SettingsOf<F extends FlagTable> = { readonly [K in keyof F]: ValueOf<F[K]> };

/** An argument that is no flag. */
export interface Positional {
  /** As the help writes it: `MODEL`. */
  readonly name: string;
  readonly isOptional?: boolean;
  /** Takes all that are left; the last one only. */
  readonly isRepeatable?: boolean;
  /** Values that completions offer, and no others are accepted. */
  readonly choices?: readonly string[];
}

/** Flags that belong together, by their names in code. */
export interface FlagGroup {
  readonly title: string;
  readonly keys: readonly string[];
}

/** Everything that the operating system lets a process do and that not every command needs. */
export type Need = "net" | "write" | "ffi" | "run";

interface CommandSpec<F extends FlagTable> {
  readonly name: string;
  /** What it does, in one line. */
  readonly summary: string;
  readonly positionals?: readonly Positional[];
  readonly flags: F;
  /** How the help orders the flags; those in no group come first. */
  readonly groups?: readonly FlagGroup[];
  /** Command lines for the end of its help. */
  readonly examples?: readonly string[];
  /** What it has to be able to do besides reading; the compiled program gives up the rest before the command starts. */
  needs(settings: SettingsOf<F>): readonly Need[];
  /**
   * Does it; a number is the exit code, nothing means 0.
   * @throws {Error} whose message is shown as one line.
   */
  run(settings: SettingsOf<F>, positionals: readonly string[]): Promise<number | void>;
}

/** A command whose settings have any shape. */
export interface Command extends Omit<CommandSpec<FlagTable>, "needs" | "run" | "positionals" | "groups" | "examples"> {
  readonly positionals: readonly Positional[];
  readonly groups: readonly FlagGroup[];
  readonly examples: readonly string[];
  needs(settings: Readonly<Record<string, unknown>>): readonly Need[];
  run(settings: Readonly<Record<string, unknown>>, positionals: readonly string[]): Promise<number | void>;
}

/** Checks a command's functions against its own flags, and forgets their types. */
export function defineCommand<F extends FlagTable>(spec: CommandSpec<F>): Command {
  return {
    name: spec.name,
    summary: spec.summary,
    positionals: spec.positionals ?? [],
    flags: spec.flags,
    groups: spec.groups ?? [],
    examples: spec.examples ?? [],
    needs: (settings) => spec.needs(settings as SettingsOf<F>),
    run: (settings, positionals) => spec.run(settings as SettingsOf<F>, positionals),
  };
}

/** `maxBatch` → `max-batch`. */
export function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `rowlock pull MODEL... [flags]` */
export function usageLine({ name, positionals, flags }: Pick<Command, "name" | "positionals" | "flags">): string {
  const places = positionals.map((place) => {
    const text = `${place.choices?.join("|") ?? place.name}${place.isRepeatable ? "..." : ""}`;
    return place.isOptional ? `[${text}]` : text;
  });
  const hasFlags = Object.keys(flags).length > 0;
  return ["rowlock", name, ...places, ...(hasFlags ? ["[flags]"] : [])].join(" ");
}
