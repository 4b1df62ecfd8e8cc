/** What a model file (`llama.ts`, …) tells about its architecture. Nothing else in the program knows one. */
import type { GgufFile } from "./gguf.ts";

/** The flat config that goes to the native library. */
export type FlatConfig = Readonly<Record<string, string | number | boolean>>;

/** A tensor that the forward pass needs. */
export interface ExpectedTensor {
  readonly name: string;
  /** Of the weight as it is multiplied; quantized weights are stored narrower. */
  readonly shape: readonly number[];
  /** The same values in the same order, as other tools describe them. */
  readonly otherShape?: readonly number[];
  /** The name that it has in the checkpoint, if that is another one: the native library gets it as `name`. */
  readonly storedName?: string;
  /** A shape that it may be stored with: the native library gets it as `shape`. */
  readonly storedShape?: readonly number[];
  /** Stored types, where they are not those of weights. */
  readonly types?: readonly string[];
  /** Used when it is there. */
  readonly isOptional?: boolean;
  /** A matrix that may be stored quantized by MLX, with `.scales` and `.biases` beside its `.weight`. */
  readonly isQuantizable?: boolean;
}

export interface ResolvedModel {
  readonly config: FlatConfig;
  readonly tensors: readonly ExpectedTensor[];
}

export interface Architecture {
  /** `model_type` values of config.json. */
  readonly modelTypes: readonly string[];
  /** `general.architecture` values of GGUF files. */
  readonly ggufArchitectures: readonly string[];
  /** A config.json made from GGUF metadata. */
  configFromGguf(file: GgufFile): Record<string, unknown>;
  /** The checkpoint's name of a GGUF tensor, null for tensors that are not used. */
  tensorNameFromGguf(name: string): string | null;
  /** The same for the tensors of a folder, where they have other names than `resolve` uses. */
  tensorNameFromFolder?(name: string): string | null;
  /**
   * Checks a config.json and says which tensors it asks for. `hasTensor` answers by the checkpoint's names.
   * @throws {ModelFileError} when a value is missing, out of range or not supported.
   */
  resolve(config: unknown, hasTensor: (name: string) => boolean): ResolvedModel;
}
