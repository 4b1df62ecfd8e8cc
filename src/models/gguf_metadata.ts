/** Typed access to the key-value pairs of a GGUF header. */
import { ModelFileError } from "./model_file_error.ts";

export type GgufScalar = string | number | boolean;
/** Arrays of numbers are plain arrays; arrays of arrays do not occur in model files and are refused by the reader. */
export type GgufValue = GgufScalar | readonly string[] | readonly number[] | readonly boolean[];

export class GgufMetadata {
  readonly #path: string;
  readonly #values: ReadonlyMap<string, GgufValue>;

  constructor(path: string, values: ReadonlyMap<string, GgufValue>) {
    this.#path = path;
    this.#values = values;
  }

  get keys(): readonly string[] {
    return [...this.#values.keys()];
  }

  get(key: string): GgufValue | undefined {
    return this.#values.get(key);
  }

  string(key: string): string | undefined {
    return this.#typed(key, "a string", (value) => typeof value === "string");
  }

  number(key: string): number | undefined {
    return this.#typed(key, "a number", (value) => typeof value === "number");
  }

  boolean(key: string): boolean | undefined {
    return this.#typed(key, "a boolean", (value) => typeof value === "boolean");
  }

  strings(key: string): readonly string[] | undefined {
    return this.#typed(key, "an array of strings", (value) => Array.isArray(value) && typeof (value[0] ?? "") === "string");
  }

  numbers(key: string): readonly number[] | undefined {
    return this.#typed(key, "an array of numbers", (value) => Array.isArray(value) && typeof (value[0] ?? 0) === "number");
  }

  booleans(key: string): readonly boolean[] | undefined {
    return this.#typed(key, "an array of booleans", (value) => Array.isArray(value) && typeof (value[0] ?? true) === "boolean");
  }

  /** @throws {ModelFileError} when `value` is undefined. */
  required<T>(key: string, value: T | undefined): T {
    if (value === undefined) throw new ModelFileError(`Cannot use ${this.#path}: its metadata has no ${key}`);
    return value;
  }

  #typed<T extends GgufValue>(key: string, kind: string, isKind: (value: GgufValue) => boolean): T | undefined {
    const value = this.#values.get(key);
    if (value === undefined || isKind(value)) return value as T | undefined;
    throw new ModelFileError(`Cannot use ${this.#path}: ${key} has to be ${kind}, found ${JSON.stringify(value)?.slice(0, 80)}`);
  }
}
