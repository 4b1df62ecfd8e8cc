/** A checkpoint as the native library takes it: a flat config and a table of tensors. Made by `src/models/`, checked against the files. */
export interface ModelSpec {
  /** `key` → value of the flat config (`model_type`, `hidden_size`, `rope_theta`, `dtype`, …); arrays are comma-joined. */
  readonly config: Readonly<Record<string, string | number | boolean>>;
  readonly tensors: readonly TensorEntry[];
}

/** Where one tensor lies. */
export interface TensorEntry {
  /** The name that Hugging Face's checkpoint of this model_type uses (`model.layers.0.self_attn.q_proj.weight`). */
  readonly name: string;
  /** safetensors (`F32`, `BF16`, `U32`) or ggml (`Q4_0`, `Q8_0`, `F16`) type. */
  readonly type: string;
  readonly file: string;
  /** Bytes from the start of the file. */
  readonly offset: number;
  readonly byteLength: number;
  /** Row-major, outermost first: a linear weight is [out, in]. */
  readonly shape: readonly number[];
}
