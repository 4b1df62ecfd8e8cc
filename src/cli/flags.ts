/** Kinds of flags: how a text becomes a value, and what is said about it in the help. */

/** The command line cannot be used as it is; the message says why. */
export class UsageError extends Error {
  override name = "UsageError";
}

export interface Flag<T> {
  /** What stands for the value in the help: `PORT`. */
  readonly placeholder: string;
  readonly help: string;
  /** The value when the flag is absent. */
  readonly default: T;
  /** How the default is written in the help; empty for none. */
  readonly defaultText: string;
  readonly isRepeatable: boolean;
  /** Takes no value: it is given or not. */
  readonly isSwitch: boolean;
  /**
   * The value of the texts given, at least one, in their order.
   * @throws {UsageError} naming `flag`, the text found and what is allowed.
   */
  parse(texts: readonly string[], flag: string): T;
}

interface Described {
  readonly placeholder: string;
  readonly help: string;
}

interface NumberFlag<T> extends Described {
  readonly default: T;
  readonly defaultText?: string;
  readonly min: number;
  readonly max: number;
}

export function text<T extends string | null>(spec: Described & { readonly default: T; readonly defaultText?: string }): Flag<string | T> {
  return single<string | T>(spec, spec.defaultText ?? spec.default ?? "", (value, flag) => {
    if (value === "") throw new UsageError(`${flag} has an empty value`);
    return value;
  });
}

export function integer<T extends number | null>(spec: NumberFlag<T>): Flag<number | T> {
  return single<number | T>(spec, spec.defaultText ?? `${spec.default}`, (value, flag) => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < spec.min || number > spec.max) {
      throw new UsageError(`${flag} is "${value}", expected a whole number from ${spec.min} to ${spec.max}`);
    }
    return number;
  });
}

/** A number of `unit`, fractions allowed. */
export function amount<T extends number | null>(spec: NumberFlag<T> & { readonly unit: string }): Flag<number | T> {
  return single<number | T>(spec, spec.defaultText ?? `${spec.default}`, (value, flag) => {
    const number = Number(value);
    if (!/^\d+(\.\d+)?$/.test(value) || number < spec.min || number > spec.max) {
      throw new UsageError(`${flag} is "${value}", expected ${spec.unit} from ${spec.min} to ${spec.max}`);
    }
    return number;
  });
}

/** A time in seconds, fractions allowed. */
export function seconds(spec: NumberFlag<number>): Flag<number> {
  return amount({ ...spec, unit: "seconds" });
}

export function choice<C extends string>(spec: { readonly help: string; readonly default: C; readonly choices: readonly C[] }): Flag<C> {
  return single({ ...spec, placeholder: spec.choices.join("|") }, spec.default, (value, flag) => {
    const found = spec.choices.find((allowed) => allowed === value);
    if (found === undefined) throw new UsageError(`${flag} is "${value}", expected one of ${spec.choices.join(", ")}`);
    return found;
  });
}

/** A flag that is on when it is there. */
export function onOff(spec: { readonly help: string }): Flag<boolean> {
  return {
    ...spec,
    placeholder: "",
    default: false,
    defaultText: "",
    isRepeatable: false,
    isSwitch: true,
    parse: () => true,
  };
}

/** A flag that may be given several times. `check` throws a UsageError for a value that it cannot have. */
export function texts(spec: Described & { readonly check?: (value: string, flag: string) => void }): Flag<readonly string[]> {
  const { placeholder, help, check } = spec;
  return {
    placeholder,
    help,
    default: [],
    defaultText: "",
    isRepeatable: true,
    isSwitch: false,
    parse(values, flag): readonly string[] {
      if (values.includes("")) throw new UsageError(`${flag} has an empty value`);
      for (const value of values) check?.(value, flag);
      return values;
    },
  };
}

function single<T>(spec: Described & { readonly default: T }, defaultText: string, parse: (value: string, flag: string) => T): Flag<T> {
  return {
    placeholder: spec.placeholder,
    help: spec.help,
    default: spec.default,
    defaultText,
    isRepeatable: false,
    isSwitch: false,
    parse(values, flag): T {
      const [value, ...more] = values;
      if (value === undefined || more.length > 0) throw new UsageError(`${flag} is given ${values.length} times, expected once`);
      return parse(value, flag);
    },
  };
}
