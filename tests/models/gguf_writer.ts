/** Writes small GGUF files, right or wrong, for tests. */

export type GgufField =
  | { readonly type: "u32" | "f32" | "u64" | "bool"; readonly value: number }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: readonly string[] }
  | { readonly type: "i32s" | "f32s"; readonly value: readonly number[] };

export interface GgufTensorSource {
  readonly name: string;
  readonly typeId: number;
  /** Fastest dimension first, as in the file. */
  readonly dims: readonly number[];
  readonly byteLength: number;
  /** Default: behind the tensor before, aligned. */
  readonly offset?: number;
}

export interface GgufSource {
  readonly magic?: number;
  readonly version?: number;
  readonly fields: readonly (readonly [key: string, field: GgufField])[];
  readonly tensors: readonly GgufTensorSource[];
}

const ALIGNMENT = 32;
const TYPE_IDS = { u32: 4, f32: 6, bool: 7, string: 8, u64: 10 } as const;

class Writer {
  readonly #bytes: number[] = [];

  get length(): number {
    return this.#bytes.length;
  }

  number(width: 1 | 4 | 8, set: (view: DataView) => void): void {
    const view = new DataView(new ArrayBuffer(width));
    set(view);
    this.#bytes.push(...new Uint8Array(view.buffer));
  }

  u32(value: number): void {
    this.number(4, (view) => view.setUint32(0, value, true));
  }

  u64(value: number): void {
    this.number(8, (view) => view.setBigUint64(0, BigInt(value), true));
  }

  f32(value: number): void {
    this.number(4, (view) => view.setFloat32(0, value, true));
  }

  string(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.u64(bytes.length);
    this.#bytes.push(...bytes);
  }

  array<T>(typeId: number, values: readonly T[], write: (value: T) => void): void {
    this.u32(9);
    this.u32(typeId);
    this.u64(values.length);
    values.forEach(write);
  }

  field(field: GgufField): void {
    switch (field.type) {
      case "strings":
        return this.array(8, field.value, (text) => this.string(text));
      case "i32s":
        return this.array(5, field.value, (value) => this.u32(value));
      case "f32s":
        return this.array(6, field.value, (value) => this.f32(value));
    }
    this.u32(TYPE_IDS[field.type]);
    if (field.type === "string") this.string(field.value);
    else if (field.type === "bool") this.number(1, (view) => view.setUint8(0, field.value));
    else this[field.type](field.value);
  }

  align(): void {
    while (this.#bytes.length % ALIGNMENT !== 0) this.#bytes.push(0);
  }

  take(numDataBytes: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.#bytes.length + numDataBytes);
    bytes.set(this.#bytes);
    return bytes;
  }
}

/** The file's bytes, and where its header ends. */
export function writeGguf(source: GgufSource): { readonly bytes: Uint8Array<ArrayBuffer>; readonly headerBytes: number } {
  const writer = new Writer();
  writer.u32(source.magic ?? 0x46554747);
  writer.u32(source.version ?? 3);
  writer.u64(source.tensors.length);
  writer.u64(source.fields.length);
  for (const [key, field] of source.fields) {
    writer.string(key);
    writer.field(field);
  }
  let end = 0;
  for (const tensor of source.tensors) {
    const offset = tensor.offset ?? Math.ceil(end / ALIGNMENT) * ALIGNMENT;
    end = Math.max(end, offset + tensor.byteLength);
    writer.string(tensor.name);
    writer.u32(tensor.dims.length);
    tensor.dims.forEach((dim) => writer.u64(dim));
    writer.u32(tensor.typeId);
    writer.u64(offset);
  }
  const headerBytes = writer.length;
  writer.align();
  return { bytes: writer.take(end), headerBytes };
}

const F32 = 0;
const Q8_0 = 8;

function f32(name: string, ...dims: number[]): GgufTensorSource {
  return { name, typeId: F32, dims, byteLength: 4 * dims.reduce((product, dim) => product * dim, 1) };
}

function q8(name: string, ...dims: number[]): GgufTensorSource {
  return { name, typeId: Q8_0, dims, byteLength: dims.reduce((product, dim) => product * dim, 1) / 32 * 34 };
}

export const TINY = { vocab: 6, hidden: 32, intermediate: 64, heads: 4, kvHeads: 2, headDim: 8 } as const;

/** A llama of one layer with a vocabulary of six tokens. */
export function tinyLlama(): { readonly fields: (readonly [string, GgufField])[]; readonly tensors: GgufTensorSource[] } {
  const { vocab, hidden, intermediate, kvHeads, headDim } = TINY;
  return {
    fields: [
      ["general.architecture", { type: "string", value: "llama" }],
      ["llama.block_count", { type: "u32", value: 1 }],
      ["llama.context_length", { type: "u32", value: 128 }],
      ["llama.embedding_length", { type: "u32", value: hidden }],
      ["llama.feed_forward_length", { type: "u32", value: intermediate }],
      ["llama.attention.head_count", { type: "u32", value: TINY.heads }],
      ["llama.attention.head_count_kv", { type: "u32", value: kvHeads }],
      ["llama.attention.layer_norm_rms_epsilon", { type: "f32", value: 1e-5 }],
      ["llama.rope.freq_base", { type: "f32", value: 5000 }],
      ["tokenizer.ggml.model", { type: "string", value: "gpt2" }],
      ["tokenizer.ggml.pre", { type: "string", value: "smollm" }],
      ["tokenizer.ggml.tokens", { type: "strings", value: ["<|endoftext|>", "<|im_end|>", "<|eom|>", "a", "b", "ab"] }],
      ["tokenizer.ggml.token_type", { type: "i32s", value: [3, 3, 3, 1, 1, 1] }],
      ["tokenizer.ggml.merges", { type: "strings", value: ["a b"] }],
      ["tokenizer.ggml.eos_token_id", { type: "u32", value: 1 }],
      ["tokenizer.ggml.eom_token_id", { type: "u32", value: 2 }],
      ["tokenizer.ggml.add_bos_token", { type: "bool", value: 0 }],
      ["tokenizer.chat_template", { type: "string", value: "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}" }],
    ],
    tensors: [
      q8("token_embd.weight", hidden, vocab),
      f32("blk.0.attn_norm.weight", hidden),
      q8("blk.0.attn_q.weight", hidden, hidden),
      f32("blk.0.attn_k.weight", hidden, kvHeads * headDim),
      f32("blk.0.attn_v.weight", hidden, kvHeads * headDim),
      q8("blk.0.attn_output.weight", hidden, hidden),
      f32("blk.0.ffn_norm.weight", hidden),
      q8("blk.0.ffn_gate.weight", hidden, intermediate),
      q8("blk.0.ffn_up.weight", hidden, intermediate),
      q8("blk.0.ffn_down.weight", intermediate, hidden),
      f32("output_norm.weight", hidden),
      f32("rope_freqs.weight", headDim / 2),
      f32("blk.0.unused.weight", 3),
    ],
  };
}
