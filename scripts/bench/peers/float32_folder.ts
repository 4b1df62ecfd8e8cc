/** A GGUF checkpoint of the llama family as the folder that Python's libraries read: config, float32 weights, tokenizer and chat template. */
import { join } from "node:path";
import { type GgufFile, readGguf } from "../../../src/models/gguf.ts";
import { architectureOfGguf } from "../../../src/models/registry.ts";
import type { TensorEntry } from "../../../src/native/model_spec.ts";
import { tokenizerFromGguf } from "../../../src/tokenizer/gguf_vocabulary.ts";
import { dequantize, separateRotaryHalves } from "./dequantize.ts";
import { type FloatTensor, writeSafetensors } from "./safetensors_file.ts";
import { completeTokenizerJson } from "./tokenizer_fields.ts";

/** Writes the folder's files. @throws {ModelFileError | RangeError} for files that are damaged or of another architecture or weight type. */
export async function writeFloat32Folder(ggufPath: string, folder: string): Promise<void> {
  const file = readGguf(ggufPath);
  const name = file.metadata.string("general.architecture");
  if (name !== "llama") throw new RangeError(`Cannot write ${ggufPath} for other servers: its architecture is ${name}, wanted is llama`);
  const { configFromGguf, tensorNameFromGguf } = architectureOfGguf(name);
  const config = configFromGguf(file);
  await Deno.mkdir(folder, { recursive: true });
  await writeJson(join(folder, "config.json"), hfConfig(config, file));
  const { tokenizerJson, tokenizerConfig } = tokenizerFromGguf(file.metadata);
  await writeJson(join(folder, "tokenizer.json"), completeTokenizerJson(tokenizerJson));
  await writeJson(join(folder, "tokenizer_config.json"), {
    ...tokenizerConfig,
    tokenizer_class: "PreTrainedTokenizerFast",
    clean_up_tokenization_spaces: false,
    chat_template: file.metadata.string("tokenizer.chat_template"),
  });
  const tensors = file.tensors.flatMap((tensor) => {
    const hfName = tensorNameFromGguf(tensor.name);
    return hfName === null ? [] : [floatTensor(hfName, tensor, config)];
  });
  writeSafetensors(join(folder, "model.safetensors"), tensors);
}

function hfConfig({ qk_interleaved: _, ...config }: Record<string, unknown>, { metadata }: GgufFile): Record<string, unknown> {
  return {
    ...config,
    architectures: ["LlamaForCausalLM"],
    hidden_act: "silu",
    torch_dtype: "float32",
    bos_token_id: metadata.number("tokenizer.ggml.bos_token_id"),
    eos_token_id: metadata.number("tokenizer.ggml.eos_token_id"),
  };
}

function floatTensor(name: string, { type, shape, file, offset, byteLength }: TensorEntry, config: Record<string, unknown>): FloatTensor {
  const read = (): Float32Array<ArrayBuffer> => {
    const values = dequantize(type, readBytes(file, offset, byteLength));
    const heads = name.includes(".q_proj.") ? "num_attention_heads" : name.includes(".k_proj.") ? "num_key_value_heads" : null;
    return heads === null ? values : separateRotaryHalves(values, Number(config[heads]), shape[1] ?? 1);
  };
  return { name, shape, read };
}

function readBytes(path: string, offset: number, numBytes: number): Uint8Array<ArrayBuffer> {
  using file = Deno.openSync(path);
  file.seekSync(offset, Deno.SeekMode.Start);
  const bytes = new Uint8Array(numBytes);
  for (let numRead = 0; numRead < numBytes;) {
    const count = file.readSync(bytes.subarray(numRead));
    if (count === null) throw new RangeError(`${path} ends ${numBytes - numRead} bytes before the end of a tensor`);
    numRead += count;
  }
  return bytes;
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, JSON.stringify(value));
}
