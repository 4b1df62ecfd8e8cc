/** The golden checkpoints: tiny models of every architecture, and what another implementation computes with them. */
import { fileURLToPath } from "node:url";
import { loadModel, type LoadOptions } from "../../src/models/checkpoint.ts";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import type { NativeCache } from "../../src/native/native_cache.ts";
import { NativeModel } from "../../src/native/native_model.ts";
import { StepOutput } from "../../src/native/step_output.ts";
import { ROW_WORDS, StructArray } from "../../src/native/structs.ts";

const FOLDER = new URL("../fixtures/golden/", import.meta.url);

export interface GoldenPrompt {
  readonly tokens: readonly number[];
  /** Of the last position. */
  readonly logits: readonly number[];
  /** Half and quantized checkpoints: the same without rounding activations. */
  readonly logits_exact?: readonly number[];
  /** Ids that arg-max gives after the prompt. */
  readonly greedy: readonly number[];
}

export interface GoldenCase {
  readonly kind: string;
  readonly dtype: "float32" | "float16" | "bfloat16";
  /** Of scalings that depend on it. */
  readonly served_context?: number;
  readonly tolerance: { readonly max_abs_logit_diff: number; readonly max_abs_logit_diff_exact?: number };
  readonly prompts: readonly GoldenPrompt[];
  /** Arg-max at every position of one prompt. */
  readonly per_position: { readonly prompt: number; readonly argmax: readonly number[] };
}

export function goldenCases(): (readonly [name: string, golden: GoldenCase])[] {
  const folders = [...Deno.readDirSync(FOLDER)].filter((entry) => entry.isDirectory).map((entry) => entry.name).sort();
  return folders.map((name) => [name, readGolden(name)] as const).filter(([, golden]) => golden.kind === "causal-lm");
}

function readGolden(name: string): GoldenCase {
  return JSON.parse(Deno.readTextFileSync(new URL(`${name}/golden.json`, FOLDER)));
}

/** The folder, or the GGUF file in it. */
export function checkpointPath(name: string): string {
  const folder = fileURLToPath(new URL(name, FOLDER));
  return [...Deno.readDirSync(folder)].some((entry) => entry.name === "model.gguf") ? `${folder}/model.gguf` : folder;
}

export interface GoldenRow {
  readonly slot: number;
  readonly offset: number;
  readonly tokens: readonly number[];
  /** Trailing positions whose logits are wanted. */
  readonly numOutputs: number;
}

/** A golden checkpoint in the native library, with a cache of 8 slots. */
export class GoldenModel implements Disposable {
  readonly #library = NativeLibrary.open(findLibrary());
  readonly #output = new StepOutput(this.#library);
  readonly #vocabSize: number;
  readonly model: NativeModel;
  readonly cache: NativeCache;

  constructor(name: string, dtype: NonNullable<LoadOptions["dtype"]>) {
    const { spec, vocabSize } = loadModel(checkpointPath(name), { dtype });
    const { served_context } = readGolden(name);
    const config = served_context === undefined ? spec.config : { ...spec.config, served_context };
    this.#vocabSize = vocabSize;
    this.model = NativeModel.load(this.#library, { ...spec, config });
    this.cache = this.model.newCache();
    this.cache.resize(8, 80);
  }

  /** The wanted logits, row after row. Rows are in slot order. */
  run(...rows: readonly GoldenRow[]): Float32Array[] {
    const structs = new StructArray(ROW_WORDS, rows.length);
    rows.forEach((row, i) => structs.int32.set([row.slot, row.offset, row.tokens.length, row.numOutputs, 0], i * ROW_WORDS));
    const tokens = Int32Array.from(rows.flatMap((row) => [...row.tokens]));
    this.model.forward(this.cache, this.#output, tokens, tokens.length, structs, rows.length);
    const numOutputs = rows.reduce((sum, row) => sum + row.numOutputs, 0);
    if (numOutputs === 0) return [];
    const logits = new Float32Array(numOutputs * this.#vocabSize);
    this.#output.read(logits);
    return Array.from({ length: numOutputs }, (_, i) => logits.subarray(i * this.#vocabSize, (i + 1) * this.#vocabSize));
  }

  [Symbol.dispose](): void {
    this.#output.close();
    this.model.close();
    this.#library.close();
  }
}

/** The lowest id of the largest logit. */
export function argmax(logits: Float32Array): number {
  return logits.indexOf(logits.reduce((best, value) => Math.max(best, value), -Infinity));
}
