import { assert, assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { loadModel } from "../../src/models/checkpoint.ts";
import type { DrafterKind } from "../../src/models/drafter.ts";
import { detectDrafterKind, loadDrafter, targetShape } from "../../src/models/drafters.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import { NativeDrafter } from "../../src/native/native_drafter.ts";
import { NativeModel } from "../../src/native/native_model.ts";
import { Speculation } from "./draft_rounds.ts";
import { TemporaryFolder } from "./temporary.ts";

const FOLDER = new URL("../fixtures/drafters/", import.meta.url);
const path = (name: string): string => fileURLToPath(new URL(name, FOLDER));

function loadTarget(name: string): LoadedModel {
  return loadModel(path(name), { dtype: "float32" });
}

/** Only the library's own kernels multiply blocks. */
function hasOwnKernels(): boolean {
  const library = NativeLibrary.open(findLibrary());
  const { kernels } = library.buildInfo();
  library.close();
  return kernels !== "mlx";
}

Deno.test("The kind of a drafter is told by its config, or by its tensors", () => {
  const cases: [Record<string, unknown>, string[], DrafterKind | null][] = [
    [{ speculators_model_type: "eagle3" }, [], "eagle3"],
    [{ model_type: "eagle3" }, [], "eagle3"],
    [{ model_type: "llama", architectures: ["LlamaForCausalLMEagle3"] }, [], "eagle3"],
    [{ model_type: "qwen3", architectures: ["DFlashDraftModel"] }, [], "dflash"],
    [{ model_type: "qwen3", dflash_config: {} }, [], "dflash"],
    [{ model_type: "qwen3_5_mtp" }, [], "mtp"],
    [{ model_type: "qwen3_5" }, ["mtp.fc.weight"], "mtp"],
    [{ model_type: "qwen3_5" }, [], null],
    [{ model_type: "llama", architectures: ["LlamaForCausalLM"], dflash_config: null }, [], null],
  ];
  for (const [config, names, kind] of cases) assertEquals(detectDrafterKind(config, (name) => names.includes(name)), kind);
});

Deno.test("Each kind says what it needs of the model and how many tokens it drafts", () => {
  const load = (name: string, drafter: string): unknown => {
    const { kind, capture, numDraftTokens, maskTokenId } = loadDrafter(path(`${name}/${drafter}`), loadTarget(name));
    return [kind, capture, numDraftTokens, maskTokenId];
  };
  assertEquals(load("qwen3_5-mtp", "."), ["mtp", { kind: "final" }, 2, null]);
  assertEquals(load("qwen3_5-mtp", "drafter"), ["mtp", { kind: "final" }, 2, null]);
  assertEquals(load("eagle3", "drafter"), ["eagle3", { kind: "layers", layers: [1, 2, 4] }, 3, null]);
  assertEquals(load("dflash", "drafter"), ["dflash", { kind: "layers", layers: [0, 1, 3] }, 7, 258]);
});

/** The drafter's folder with another config. */
function changed(
  drafter: string,
  change: (config: Record<string, unknown>) => Record<string, unknown>,
  body: (folder: string) => void,
): void {
  using folder = new TemporaryFolder();
  const config = JSON.parse(Deno.readTextFileSync(path(`${drafter}/config.json`)));
  folder.write("config.json", JSON.stringify(change(config)));
  folder.write("model.safetensors", Deno.readFileSync(path(`${drafter}/model.safetensors`)));
  body(folder.path);
}

Deno.test("A drafter that does not fit the model is refused with the reason", () => {
  const cases: [string, string, Record<string, unknown>, string][] = [
    ["eagle3", "eagle3/drafter", { target_hidden_size: 128 }, "target_hidden_size is 128, the model's is 64"],
    ["eagle3", "eagle3/drafter", { eagle_aux_hidden_state_layer_ids: [2, 3, 6] }, "names layer 5 (from 0), the model has 5 layers"],
    ["eagle3", "eagle3/drafter", { eagle_aux_hidden_state_layer_ids: [0] }, "names layer -1"],
    ["eagle3", "eagle3/drafter", { draft_vocab_size: 200 }, "tensor lm_head.weight has the shape [248, 64], expected [200, 64]"],
    ["dflash", "dflash/drafter", { hidden_size: 128 }, "hidden_size is 128, the model's is 64"],
    ["dflash", "dflash/drafter", { num_target_layers: 36 }, "num_target_layers is 36, the model's is 4"],
    ["dflash", "dflash/drafter", { dflash_config: { target_layer_ids: [0, 1, 3], mask_token_id: 264 } }, "0 … 263"],
    ["dflash", "dflash/drafter", { dflash_config: { mask_token_id: 258 } }, "target_layer_ids names layer none"],
    ["dflash", "dflash/drafter", { final_logit_softcapping: 30 }, "final_logit_softcapping is 30"],
    ["dflash", "dflash-qwen3_5/drafter", {}, "hidden_size is 56, the model's is 64"],
    ["eagle3", "qwen3_5-mtp/drafter", {}, 'model_type is "qwen3_5", the model\'s is "qwen3"'],
  ];
  for (const [target, drafter, change, message] of cases) {
    const model = loadTarget(target);
    changed(
      drafter,
      (config) => ({ ...config, ...change }),
      (folder) => assertThrows(() => loadDrafter(folder, model), ModelFileError, message),
    );
  }
});

Deno.test("A folder that holds no drafter is refused, and a kind that is asked for is tried", () => {
  const model = loadTarget("eagle3");
  assertThrows(() => loadDrafter(path("eagle3"), model), ModelFileError, 'model_type "qwen3" is none of mtp, eagle3, dflash');
  assertThrows(() => loadDrafter(path("eagle3/drafter"), model, "dflash"), ModelFileError, "vocab_size is missing");
  using empty = new TemporaryFolder();
  assertThrows(() => loadDrafter(empty.path, model), ModelFileError, "it has no config.json");
  assertThrows(() => loadDrafter(`${empty.path}/absent`, model), ModelFileError, "absent as a drafter: it does not exist");
});

Deno.test("Without layer ids an early, a middle and a late layer are taken", () => {
  const model = loadTarget("eagle3");
  const bigModel = { spec: { ...model.spec, config: { ...model.spec.config, num_hidden_layers: 32 } } };
  const withoutIds = ({ eagle_aux_hidden_state_layer_ids: _, ...config }: Record<string, unknown>): Record<string, unknown> => config;
  changed("eagle3/drafter", withoutIds, (folder) => {
    assertEquals(loadDrafter(folder, bigModel).capture, { kind: "layers", layers: [1, 15, 28] });
  });
  assertEquals(targetShape(model), { modelType: "qwen3", vocabSize: 288, hiddenSize: 64, numLayers: 5 });
});

Deno.test("Beside a quantized model a drafter is rounded to 4 bits, unless a compute type was asked for", () => {
  const model = loadModel(path("eagle3"));
  const denseBits = ({ spec }: Pick<LoadedModel, "spec">): unknown =>
    loadDrafter(path("eagle3/drafter"), { spec }).spec.config["dense_bits"];
  const tensors = model.spec.tensors.map((tensor) => tensor.shape.length === 2 ? { ...tensor, type: "Q4_0" } : tensor);
  assertEquals(denseBits(model), undefined);
  assertEquals(denseBits({ spec: { ...model.spec, tensors } }), 4);
  assertEquals(denseBits({ spec: { config: { ...model.spec.config, dtype: "float32" }, tensors } }), undefined);
});

Deno.test("A drafter that is rounded takes a fraction of the bytes, and its logits stay near", () => {
  const prompt = Array.from({ length: 24 }, (_, i) => 7 * i % 200);
  const run = (changes: Record<string, string | number>): { bytes: number; logits: Float32Array } => {
    using speculation = new Speculation(path("eagle3"), path("eagle3/drafter"), 1, changes);
    const rows = speculation.start([prompt]);
    speculation.round(rows, 2, 8);
    return { bytes: speculation.weightBytes, logits: rows[0]!.rounds[0]!.draftLogits[0]! };
  };
  const exact = run({ dtype: "auto" });
  const norm = (values: Float32Array): number => Math.hypot(...values.filter(Number.isFinite));
  const [eight, four] = [8, 4].map((bits) => {
    const { bytes, logits } = run({ dtype: "auto", dense_bits: bits });
    return { bytes, error: norm(logits.map((logit, i) => logit - exact.logits[i]!)) / norm(exact.logits) };
  });
  if (!hasOwnKernels()) return assertEquals([eight, four], [8, 4].map(() => ({ bytes: exact.bytes, error: 0 })));
  assert(exact.bytes > 3 * eight!.bytes && eight!.bytes > 1.5 * four!.bytes, `${exact.bytes}, ${eight!.bytes} and ${four!.bytes} bytes`);
  assert(0 < eight!.error && eight!.error < 0.02, `8 bits are off by ${eight!.error}`);
  assert(eight!.error < four!.error && four!.error < 0.3, `4 bits are off by ${four!.error}`);
});

Deno.test("A model that is closed takes its drafter and both caches with it", () => {
  const library = NativeLibrary.open(findLibrary());
  const target = loadTarget("eagle3");
  const model = NativeModel.load(library, target.spec);
  const drafter = NativeDrafter.load(model, loadDrafter(path("eagle3/drafter"), target).spec);
  const { modelFeatureWidth, ownFeatureWidth, kvBytesPerToken, weightBytes } = drafter.info;
  assertEquals([modelFeatureWidth, ownFeatureWidth, kvBytesPerToken, weightBytes > 0], [192, 64, 2 * 2 * 32 * 4, true]);
  assertEquals(drafter.info.isKvSparse, model.info.isKvSparse);
  const caches = [model.newCache(), drafter.newCache()];
  caches.forEach((cache) => cache.resize(2, 16));
  model.close();
  assertThrows(() => drafter.newCache(), TypeError, "it is closed");
  caches.forEach((cache) => assertThrows(() => cache.info(), TypeError, "it is closed"));
  drafter.close();
  library.close();
});
