import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { COMPUTE_TYPES, loadModel } from "../../src/models/checkpoint.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { modelTest } from "../test_model.ts";
import { makeTinyTokenizer, tinyTokenizerJson } from "../tokenizer/tiny_tokenizers.ts";
import { type GgufField, type GgufTensorSource, tinyLlama, writeGguf } from "./gguf_writer.ts";
import { TemporaryFolder } from "./temporary.ts";

const golden = new URL("../fixtures/golden/", import.meta.url);

function loadGolden(name: string): LoadedModel {
  return loadModel(fileURLToPath(new URL(name, golden)));
}

/** A copy of a golden folder whose files can be changed. */
function copyGolden(name: string, folder: TemporaryFolder): Record<string, unknown> {
  for (const entry of Deno.readDirSync(new URL(`${name}/`, golden))) {
    if (entry.name !== "golden.json") folder.write(entry.name, Deno.readFileSync(new URL(`${name}/${entry.name}`, golden)));
  }
  return JSON.parse(Deno.readTextFileSync(`${folder.path}/config.json`));
}

function refuse(path: string, message: string): void {
  assertThrows(() => loadModel(path), ModelFileError, message);
}

Deno.test("Every golden checkpoint loads, with exactly the tensors of its architecture", () => {
  const numTensors = { "llama-tied-f32": 38, "llama-untied-gqa-f32": 42, "llama-sliding-f32": 39, "llama-bf16": 39, mistral: 39 };
  for (const [name, count] of Object.entries(numTensors)) {
    const model = loadGolden(name);
    assertEquals([model.id, model.spec.tensors.length, model.tokenizer, model.chatTemplate], [name, count, null, null]);
    assertEquals([model.vocabSize, model.maxContext, model.stopIds], [320, 2048, [319]]);
  }
});

Deno.test("The flat config has every key, with the config's values", () => {
  const { spec } = loadGolden("llama-untied-gqa-f32");
  assertEquals(spec.config, {
    model_type: "llama",
    vocab_size: 320,
    hidden_size: 96,
    intermediate_size: 176,
    num_hidden_layers: 3,
    num_attention_heads: 6,
    num_key_value_heads: 2,
    head_dim: 16,
    rms_norm_eps: 1e-5,
    tie_word_embeddings: false,
    attention_bias: true,
    mlp_bias: false,
    max_position_embeddings: 2048,
    qk_interleaved: false,
    rope_theta: 10000,
    rope_type: "llama3",
    rope_factor: 8,
    rope_low_freq_factor: 1,
    rope_high_freq_factor: 4,
    rope_original_max_position_embeddings: 64,
    sliding_window: 0,
    layer_types: "",
    quant_bits: 0,
    quant_group_size: 0,
    dtype: "auto",
  });
});

Deno.test("Windows, head sizes and compute types reach the flat config", () => {
  const { config } = loadGolden("llama-sliding-f32").spec;
  assertEquals([config["sliding_window"], config["layer_types"]], [
    12,
    "sliding_attention,full_attention,sliding_attention,sliding_attention",
  ]);
  const mistral = loadGolden("mistral");
  assertEquals([mistral.modelType, mistral.spec.config["model_type"], mistral.spec.config["head_dim"]], ["mistral", "llama", 32]);
  const path = fileURLToPath(new URL("llama-tied-f32", golden));
  for (const dtype of COMPUTE_TYPES) assertEquals(loadModel(path, { dtype }).spec.config["dtype"], dtype);
});

Deno.test("MLX's quantization comes with its scales and biases, and with overrides by module", () => {
  const { spec } = loadGolden("llama-q4-embed8");
  assertEquals([spec.config["quant_bits"], spec.config["quant_group_size"]], [4, 32]);
  assertEquals(Object.entries(spec.config).filter(([key]) => key.startsWith("quant.")), [["quant.model.embed_tokens", "8,32"], [
    "quant.lm_head",
    "8,32",
  ]]);
  const parts = spec.tensors.filter(({ name }) => name.startsWith("lm_head.")).map(({ name, type, shape }) => [name, type, shape]);
  assertEquals(parts, [["lm_head.weight", "U32", [320, 16]], ["lm_head.scales", "BF16", [320, 2]], ["lm_head.biases", "BF16", [320, 2]]]);
  assertEquals(loadGolden("llama-q4").spec.tensors.length, 99);
});

Deno.test("Tensors of shards point into their own files", () => {
  const { tensors } = loadGolden("llama-bf16").spec;
  const files = new Set(tensors.map(({ file }) => file.split("/").at(-1)));
  assertEquals([...files].sort(), ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]);
});

Deno.test("Shards load without their index too", () => {
  using folder = new TemporaryFolder();
  copyGolden("llama-bf16", folder);
  Deno.removeSync(`${folder.path}/model.safetensors.index.json`);
  assertEquals(loadModel(folder.path).spec.tensors.length, 39);
});

Deno.test("An index that leads out of the folder, or to a tensor that is not there, is refused", () => {
  using folder = new TemporaryFolder();
  copyGolden("llama-bf16", folder);
  const index = (map: Record<string, string>): void =>
    void folder.write("model.safetensors.index.json", JSON.stringify({ weight_map: map }));
  index({ "model.norm.weight": "../../secret.safetensors" });
  refuse(folder.path, 'said to be in "../../secret.safetensors", which is no file name');
  index({ "model.nothing.weight": "model-00001-of-00002.safetensors" });
  refuse(folder.path, "tensor model.nothing.weight is not in model-00001-of-00002.safetensors");
  folder.write("model.safetensors.index.json", "{}");
  refuse(folder.path, "it has no weight_map");
});

Deno.test("A folder that lacks something, or a path to nothing, is refused by name", () => {
  using folder = new TemporaryFolder();
  refuse(folder.path, "it has no config.json");
  folder.write("config.json", JSON.stringify({ model_type: "llama" }));
  refuse(folder.path, "it has no model*.safetensors");
  folder.write("config.json", JSON.stringify({ model_type: "gpt_neox" }));
  refuse(folder.path, 'Unsupported model_type: "gpt_neox"; supported are gemma3_text, gemma3, llama, mistral, ');
  folder.write("config.json", "[1]");
  refuse(folder.path, "holds [1] instead of a JSON object");
  refuse(`${folder.path}/nothing`, "There is no file or folder");
  refuse(folder.write("model.bin", "x"), "a model is a folder with config.json, or a file that ends in .gguf");
});

Deno.test("Config values that are missing, wrong or not supported are refused with key, value and what is allowed", () => {
  using folder = new TemporaryFolder();
  const config = copyGolden("llama-tied-f32", folder);
  const change = (values: Record<string, unknown>, message: string): void => {
    folder.write("config.json", JSON.stringify({ ...config, ...values }));
    refuse(folder.path, message);
  };
  change({ num_hidden_layers: 1_000_000 }, "num_hidden_layers is 1000000");
  change({ hidden_size: undefined }, "hidden_size is missing");
  change({ hidden_size: 64.5 }, "hidden_size is 64.5");
  change({ num_key_value_heads: 3 }, "num_key_value_heads is 3: it has to divide num_attention_heads (4)");
  change({ hidden_act: "gelu" }, 'hidden_act is "gelu": only silu is supported');
  change(
    { rope_scaling: { type: "xpos" } },
    'rope_scaling.rope_type is "xpos": supported are default, llama3, linear, dynamic, yarn, longrope',
  );
  change({ rope_parameters: { partial_rotary_factor: 0.5 } }, "partial_rotary_factor is 0.5");
  change({ layer_types: ["full_attention"] }, "one entry for each of the 4 layers");
  change({ layer_types: new Array(4).fill("linear_attention") }, 'layer_types is "linear_attention": supported are full_attention');
  change({ layer_types: new Array(4).fill("sliding_attention") }, "sliding_window is missing");
  change({ quantization_config: { quant_method: "gptq", bits: 4 } }, 'quant_method is "gptq": only MLX\'s quantizations');
  change({ quantization: { bits: 7, group_size: 32 } }, "quantization.bits is 7: supported are 2, 3, 4, 5, 6, 8");
  change({ quantization: { bits: 4, group_size: 16, mode: "nvfp4" } }, 'quantization.mode is "nvfp4": supported are affine, mxfp4');
  change({ quantization: { bits: 8, group_size: 32, mode: "mxfp4" } }, "quantization.bits is 8: mxfp4 has 4");
});

Deno.test("A tensor that is missing or has another shape is named with what was found and expected", () => {
  using folder = new TemporaryFolder();
  const config = copyGolden("llama-tied-f32", folder);
  folder.write("config.json", JSON.stringify({ ...config, intermediate_size: 168 }));
  refuse(folder.path, "tensor model.layers.0.mlp.gate_proj.weight has the shape [160, 64], expected [168, 64]");
  folder.write("config.json", JSON.stringify({ ...config, num_hidden_layers: 5 }));
  refuse(folder.path, "it has no tensor model.layers.4.input_layernorm.weight, expected with the shape [64]");
  folder.write("config.json", JSON.stringify({ ...config, tie_word_embeddings: false }));
  refuse(folder.path, "it has no tensor lm_head.weight, expected with the shape [320, 64]");
  folder.write("config.json", JSON.stringify({ ...config, tie_word_embeddings: undefined }));
  assertEquals(loadModel(folder.path).spec.config["tie_word_embeddings"], true);
});

Deno.test("Quantized tensors without a quantization in the config are refused", () => {
  using folder = new TemporaryFolder();
  const { quantization: _, quantization_config: __, ...config } = copyGolden("llama-q4", folder);
  folder.write("config.json", JSON.stringify(config));
  refuse(folder.path, "tensor model.embed_tokens.weight is quantized, but the config has no quantization for it");
  folder.write("config.json", JSON.stringify({ ...config, quantization: { bits: 8, group_size: 32 } }));
  refuse(folder.path, "tensor model.embed_tokens.weight has the shape [320, 8], expected [320, 16]");
});

Deno.test("Mistral's window holds for all layers", () => {
  using folder = new TemporaryFolder();
  const config = copyGolden("mistral", folder);
  folder.write("config.json", JSON.stringify({ ...config, sliding_window: 16 }));
  const { spec } = loadModel(folder.path);
  assertEquals([spec.config["sliding_window"], spec.config["layer_types"]], [16, new Array(4).fill("sliding_attention").join(",")]);
});

Deno.test("A folder's tokenizer, template, stop ids and sampling defaults are found", () => {
  using folder = new TemporaryFolder();
  const config = copyGolden("llama-tied-f32", folder);
  folder.write("config.json", JSON.stringify({ ...config, eos_token_id: [5, 9999] }));
  folder.write("tokenizer.json", JSON.stringify(tinyTokenizerJson()));
  folder.write(
    "tokenizer_config.json",
    JSON.stringify({ bos_token: { content: "<bos>" }, eos_token: "<bos>", chat_template: "from the config" }),
  );
  folder.write(
    "generation_config.json",
    JSON.stringify({ eos_token_id: 7, temperature: 0.6, do_sample: true, bos_token_id: 1, _x: 1, transformers_version: "5" }),
  );
  const model = loadModel(folder.path);
  assertEquals(model.tokenizer?.encode("<bos>a", { parseSpecial: true }), [258, 97]);
  assertEquals(model.chatTemplate?.source, "from the config");
  assertEquals(model.stopIds, [5, 7, 258]);
  assertEquals(model.generationDefaults, { temperature: 0.6, do_sample: true });
  folder.write("chat_template.jinja", "{{ bos_token }}<|im_end|>");
  const own = loadModel(folder.path);
  assertEquals(own.chatTemplate?.render([], { addGenerationPrompt: false }), "<bos><|im_end|>");
  assertEquals(own.stopIds, [5, 7, 257, 258]);
});

Deno.test("A tokenizer or template that cannot be used is a fault of the model's files", () => {
  using folder = new TemporaryFolder();
  copyGolden("llama-tied-f32", folder);
  folder.write("tokenizer.json", JSON.stringify({ ...tinyTokenizerJson(), model: { type: "WordPiece" } }));
  refuse(folder.path, "Unsupported tokenizer model: WordPiece");
  folder.write("tokenizer.json", JSON.stringify(tinyTokenizerJson()));
  folder.write("chat_template.jinja", "{% if %}");
  refuse(folder.path, "Cannot read the chat template");
});

interface GgufChange {
  readonly fields?: readonly (readonly [string, GgufField])[];
  readonly tensors?: (tensors: GgufTensorSource[]) => GgufTensorSource[];
}

function loadGguf(change: GgufChange = {}): LoadedModel {
  using folder = new TemporaryFolder();
  const tiny = tinyLlama();
  const fields = new Map([...tiny.fields, ...(change.fields ?? [])]);
  const source = { fields: [...fields], tensors: change.tensors?.(tiny.tensors) ?? tiny.tensors };
  return loadModel(folder.write("tiny.Q8_0.gguf", writeGguf(source).bytes));
}

Deno.test("A GGUF file gives config, tensors under the checkpoint's names, tokenizer, template and stop ids", () => {
  const model = loadGguf();
  const { config, tensors } = model.spec;
  assertEquals([model.id, model.modelType, model.maxContext, model.vocabSize], ["tiny.Q8_0", "llama", 128, 6]);
  assertEquals([config["qk_interleaved"], config["tie_word_embeddings"], config["rope_theta"], config["head_dim"]], [true, true, 5000, 8]);
  assertEquals(tensors.map(({ name }) => name), [
    "model.embed_tokens.weight",
    ...["input_layernorm", "post_attention_layernorm"].map((name) => `model.layers.0.${name}.weight`),
    ...["q_proj", "k_proj", "v_proj", "o_proj"].map((name) => `model.layers.0.self_attn.${name}.weight`),
    ...["gate_proj", "up_proj", "down_proj"].map((name) => `model.layers.0.mlp.${name}.weight`),
    "model.norm.weight",
    "rope_freqs.weight",
  ]);
  assertEquals(tensors.find(({ name }) => name.endsWith("k_proj.weight"))?.shape, [16, 32]);
  assertEquals(model.tokenizer?.encode("abba"), [5, 4, 3]);
  assertEquals(model.chatTemplate?.render([{ content: "x" }], { addGenerationPrompt: false }), "x<|im_end|>");
  assertEquals(model.stopIds, [0, 1, 2]);
});

Deno.test("GGUF files whose weights cannot be computed with are refused by name", () => {
  const refuseGguf = (change: GgufChange, message: string): void => {
    assertThrows(() => loadGguf(change), ModelFileError, message);
  };
  const field = (key: string, value: number): GgufChange => ({ fields: [[key, { type: "u32", value }]] });
  refuseGguf(
    { fields: [["general.architecture", { type: "string", value: "rwkv7" }]] },
    'Unsupported general.architecture: "rwkv7"; supported are gemma3, llama, ',
  );
  refuseGguf(field("split.count", 3), "it is one of 3 parts, and its name does not end in -00001-of-00003.gguf");
  refuseGguf(field("llama.expert_count", 8), "llama.expert_count is 8");
  refuseGguf(field("llama.rope.dimension_count", 4), "llama.rope.dimension_count is 4: it has to equal the head's size (8)");
  refuseGguf({ fields: [["llama.rope.scaling.type", { type: "string", value: "xpos" }]] }, 'rope_type is "xpos"');
  refuseGguf(
    { tensors: (tensors) => tensors.filter(({ name }) => name !== "blk.0.ffn_up.weight") },
    "no tensor model.layers.0.mlp.up_proj.weight",
  );
  const asI8 = (tensor: GgufTensorSource): GgufTensorSource => ({ ...tensor, typeId: 24, byteLength: tensor.dims[0]! * tensor.dims[1]! });
  refuseGguf(
    { tensors: ([first, ...rest]) => [asI8(first!), ...rest] },
    "model.embed_tokens.weight has the type I8; supported are F32, F16, BF16, Q4_0",
  );
});

Deno.test("A GGUF file without vocabulary serves ids only", () => {
  const model = loadGguf({ fields: [["tokenizer.ggml.model", { type: "string", value: "none" }]] });
  assertEquals([model.tokenizer, model.chatTemplate], [null, null]);
});

Deno.test("The tiny tokenizer of these tests agrees with itself after a round over a file", () => {
  using folder = new TemporaryFolder();
  copyGolden("llama-tied-f32", folder);
  folder.write("tokenizer.json", JSON.stringify(tinyTokenizerJson()));
  assertEquals(loadModel(folder.path).tokenizer?.encode("é<think>"), makeTinyTokenizer().encode("é<think>"));
});

modelTest("The default model loads quickly, with its stop ids and template", (path) => {
  const startMs = performance.now();
  const model = loadModel(path);
  assert(performance.now() - startMs < 3000);
  assertEquals([model.spec.tensors.length, model.vocabSize, model.maxContext, model.stopIds], [272, 49152, 8192, [0, 2]]);
  assertEquals(model.chatTemplate?.source.includes("<|im_start|>"), true);
});
