/**
 * Writes a checkpoint of Llama 3.2 1B's shape with random bfloat16 weights (2.5 GB), to measure what loading and serving take:
 *
 *     deno run -A scripts/bench/random_model.ts FOLDER
 *     deno task serve --model FOLDER
 */
import { basename } from "node:path";

const SIZES = { hidden: 2048, intermediate: 8192, numLayers: 16, numHeads: 32, numKvHeads: 8, headDim: 64, vocab: 128_256 };
const POOL_VALUES = 1 << 20;

const config = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  hidden_size: SIZES.hidden,
  intermediate_size: SIZES.intermediate,
  num_hidden_layers: SIZES.numLayers,
  num_attention_heads: SIZES.numHeads,
  num_key_value_heads: SIZES.numKvHeads,
  head_dim: SIZES.headDim,
  vocab_size: SIZES.vocab,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
  rope_scaling: { rope_type: "llama3", factor: 32, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 },
  max_position_embeddings: 131_072,
  tie_word_embeddings: true,
  eos_token_id: 128_001,
};

function tensorShapes(): Map<string, readonly number[]> {
  const { hidden, intermediate, numHeads, numKvHeads, headDim } = SIZES;
  const shapes = new Map<string, readonly number[]>([["model.embed_tokens.weight", [SIZES.vocab, hidden]], ["model.norm.weight", [
    hidden,
  ]]]);
  const layer: Record<string, readonly number[]> = {
    "input_layernorm": [hidden],
    "post_attention_layernorm": [hidden],
    "self_attn.q_proj": [numHeads * headDim, hidden],
    "self_attn.k_proj": [numKvHeads * headDim, hidden],
    "self_attn.v_proj": [numKvHeads * headDim, hidden],
    "self_attn.o_proj": [hidden, numHeads * headDim],
    "mlp.gate_proj": [intermediate, hidden],
    "mlp.up_proj": [intermediate, hidden],
    "mlp.down_proj": [hidden, intermediate],
  };
  for (let i = 0; i < SIZES.numLayers; i++) {
    for (const [name, shape] of Object.entries(layer)) shapes.set(`model.layers.${i}.${name}.weight`, shape);
  }
  return shapes;
}

function header(shapes: ReadonlyMap<string, readonly number[]>): Uint8Array {
  let offset = 0;
  const entries = [...shapes].map(([name, shape]) => {
    const begin = offset;
    offset += 2 * numValues(shape);
    return [name, { dtype: "BF16", shape, data_offsets: [begin, offset] }];
  });
  const text = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const bytes = new Uint8Array(8 + text.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  return bytes;
}

function numValues(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** bfloat16 is the upper half of float32. */
function bfloat16(values: Float32Array): Uint16Array<ArrayBuffer> {
  return Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16);
}

function writeTensor(file: Deno.FsFile, shape: readonly number[], pool: Uint16Array): void {
  const isNorm = shape.length === 1;
  const ones = isNorm ? bfloat16(new Float32Array(shape[0]!).fill(1)) : pool;
  for (let left = numValues(shape); left > 0;) {
    const count = Math.min(left, ones.length);
    const bytes = new Uint8Array(ones.buffer, ones.byteOffset, 2 * count);
    for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
    left -= count;
  }
}

const [folder] = Deno.args;
if (folder === undefined) {
  console.error(`usage: ${basename(import.meta.url)} FOLDER`);
  Deno.exit(2);
}
Deno.mkdirSync(folder, { recursive: true });
Deno.writeTextFileSync(`${folder}/config.json`, JSON.stringify(config));
const shapes = tensorShapes();
const pool = bfloat16(Float32Array.from({ length: POOL_VALUES }, () => 0.07 * (Math.random() - 0.5)));
using file = Deno.openSync(`${folder}/model.safetensors`, { write: true, create: true, truncate: true });
const head = header(shapes);
for (let done = 0; done < head.length;) done += file.writeSync(head.subarray(done));
for (const shape of shapes.values()) writeTensor(file, shape, pool);
