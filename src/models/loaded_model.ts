/** A checkpoint that was found, read and checked, ready for the engine and the server. */
import type { ModelSpec } from "../native/model_spec.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import type { ChatTemplate } from "../tokenizer/chat_template.ts";

export interface LoadedModel {
  /** The id that `/v1/models` lists. */
  readonly id: string;
  /** Where it was read from, so that another thread can read it too. */
  readonly path?: string;
  readonly modelType: string;
  readonly spec: ModelSpec;
  readonly vocabSize: number;
  /** Tokens of context that the checkpoint was trained for. */
  readonly maxContext: number;
  /** Ends a sequence: union of config, generation config and tokenizer. */
  readonly stopIds: readonly number[];
  /** null: only token ids can be served. */
  readonly tokenizer: Tokenizer | null;
  /** null: chat completions are refused, completions work. */
  readonly chatTemplate: ChatTemplate | null;
  /** Sampling defaults of generation_config.json, in its own names (temperature, top_p, top_k, repetition_penalty, …). */
  readonly generationDefaults: Readonly<Record<string, number | boolean>>;
}
