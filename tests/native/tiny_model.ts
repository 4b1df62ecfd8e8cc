/** A random Llama of a few thousand weights, written to a temporary file: the real native path without a download. */
import type { ModelSpec, TensorEntry } from "../../src/native/model_spec.ts";

export const TINY = { vocabSize: 96, hiddenSize: 32, numLayers: 2, numHeads: 4, numKvHeads: 2, headDim: 8, intermediateSize: 64 };

export interface TinyModel {
  readonly spec: ModelSpec;
  remove(): void;
}

export function makeTinyModel(seed = 1): TinyModel {
  const file = Deno.makeTempFileSync({ prefix: "rowlock-tiny-" });
  const random = randomNumbers(seed);
  const tensors: TensorEntry[] = [];
  const chunks: Float32Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const [name, shape] of Object.entries(tensorShapes())) {
    const length = shape.reduce((product, dim) => product * dim, 1);
    const isNorm = shape.length === 1;
    chunks.push(Float32Array.from({ length }, () => isNorm ? 1 + 0.1 * random() : 0.4 * random()));
    tensors.push({ name, type: "F32", file, offset, byteLength: 4 * length, shape });
    offset += 4 * length;
  }
  Deno.writeFileSync(file, new Uint8Array(offset));
  const handle = Deno.openSync(file, { write: true });
  for (const chunk of chunks) handle.writeSync(new Uint8Array(chunk.buffer));
  handle.close();
  return { spec: { config: tinyConfig(), tensors }, remove: () => Deno.removeSync(file) };
}

function tinyConfig(): ModelSpec["config"] {
  return {
    model_type: "llama",
    vocab_size: TINY.vocabSize,
    hidden_size: TINY.hiddenSize,
    intermediate_size: TINY.intermediateSize,
    num_hidden_layers: TINY.numLayers,
    num_attention_heads: TINY.numHeads,
    num_key_value_heads: TINY.numKvHeads,
    head_dim: TINY.headDim,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: true,
    attention_bias: false,
    mlp_bias: false,
    qk_interleaved: false,
    rope_type: "default",
    sliding_window: 0,
    layer_types: "",
    quant_bits: 0,
    quant_group_size: 0,
    dtype: "float32",
  };
}

function tensorShapes(): Record<string, number[]> {
  const { vocabSize, hiddenSize, numLayers, numHeads, numKvHeads, headDim, intermediateSize } = TINY;
  const shapes: Record<string, number[]> = { "model.embed_tokens.weight": [vocabSize, hiddenSize], "model.norm.weight": [hiddenSize] };
  for (let i = 0; i < numLayers; i++) {
    const layer = `model.layers.${i}`;
    shapes[`${layer}.input_layernorm.weight`] = [hiddenSize];
    shapes[`${layer}.post_attention_layernorm.weight`] = [hiddenSize];
    shapes[`${layer}.self_attn.q_proj.weight`] = [numHeads * headDim, hiddenSize];
    shapes[`${layer}.self_attn.k_proj.weight`] = [numKvHeads * headDim, hiddenSize];
    shapes[`${layer}.self_attn.v_proj.weight`] = [numKvHeads * headDim, hiddenSize];
    shapes[`${layer}.self_attn.o_proj.weight`] = [hiddenSize, numHeads * headDim];
    shapes[`${layer}.mlp.gate_proj.weight`] = [intermediateSize, hiddenSize];
    shapes[`${layer}.mlp.up_proj.weight`] = [intermediateSize, hiddenSize];
    shapes[`${layer}.mlp.down_proj.weight`] = [hiddenSize, intermediateSize];
  }
  return shapes;
}

/** Numbers in [-1, 1), the same for the same seed on every machine. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 31 - 1;
  };
}
