import { assertEquals, assertThrows } from "@std/assert";
import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArguments } from "../../src/cli/parse_arguments.ts";
import { checkDraftFlags, checkOwnDrafter, chooseDrafter, type DraftSettings } from "../../src/cli/choose_drafter.ts";
import { UsageError } from "../../src/cli/flags.ts";
import type { SpeculationOptions } from "../../src/engine/messages.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { requireTestModel } from "../e2e/real_server.ts";

function fixture(path: string): string {
  return isAbsolute(path) ? path : fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));
}

function chosen(model: string, ...args: string[]): SpeculationOptions | null {
  const invocation = parseArguments(["serve", ...args]);
  if (invocation.kind !== "run") throw new Error(`expected a command to run, found ${invocation.kind}`);
  const settings = invocation.settings as unknown as DraftSettings;
  checkDraftFlags(settings);
  return chooseDrafter(loadModel(fixture(model)), settings);
}

Deno.test("a model without a head of its own drafts by prompt lookup, with the number of tokens that is asked for", () => {
  assertEquals(chosen("golden/llama-tied-f32"), { drafter: null });
  assertEquals(chosen("golden/llama-tied-f32", "--draft-tokens", "3"), { drafter: null, maxDrafts: 3 });
  assertEquals(chosen("golden/llama-tied-f32", "--no-speculation"), null);
});

Deno.test("the MTP head of a checkpoint is found by itself, unless another kind is wanted", () => {
  assertEquals(chosen("drafters/qwen3_5-mtp")?.drafter?.kind, "mtp");
  assertEquals(chosen("drafters/qwen3_5-mtp", "--draft-kind", "mtp")?.drafter?.kind, "mtp");
  assertEquals(chosen("drafters/qwen3_5-mtp", "--draft-kind", "ngram")?.drafter, null);
});

Deno.test("a drafter's folder is read for the model, and refused where it does not fit", () => {
  const eagle = chosen("drafters/eagle3", "--draft-model", fixture("drafters/eagle3/drafter"));
  assertEquals([eagle?.drafter?.kind, eagle?.drafter?.capture.kind], ["eagle3", "layers"]);
  assertThrows(
    () => chosen("golden/llama-tied-f32", "--draft-model", fixture("drafters/qwen3_5-mtp/drafter")),
    ModelFileError,
    "does not fit",
  );
});

Deno.test("flags that contradict each other are refused", () => {
  const model = "golden/llama-tied-f32";
  assertThrows(() => chosen(model, "--draft-kind", "eagle3"), UsageError, '"eagle3", and the model has no such drafter of its own');
  assertThrows(() => chosen(model, "--draft-kind", "mtp"), UsageError, "no such drafter of its own");
  assertThrows(() => chosen(model, "--draft-kind", "ngram", "--draft-model", "x"), UsageError, "needs no weights");
  for (const flag of ["--draft-model=x", "--draft-kind=ngram", "--draft-kind=mtp", "--draft-tokens=3"]) {
    const { message } = assertThrows(() => chosen(model, "--no-speculation", flag), UsageError);
    assertEquals(message, `${flag.split("=")[0]} and --no-speculation are both given, expected one of them`);
  }
});

Deno.test("a folder without config or weights is read as a drafter, says what one needs, and is told before the model is read", () => {
  const folder = Deno.makeTempDirSync();
  try {
    const beside = join(folder, "model.drafter");
    Deno.mkdirSync(beside);
    const needs = "a drafter's folder has config.json and model*.safetensors";
    const check = (): void => checkDraftFlags({ noSpeculation: false, draftModel: beside, draftKind: "auto", draftTokens: null });
    const own = (draftKind: DraftSettings["draftKind"]): void =>
      checkOwnDrafter(join(folder, "model.gguf"), { noSpeculation: false, draftModel: null, draftKind, draftTokens: null });
    const empty = assertThrows(check, ModelFileError).message;
    assertEquals(empty, `Cannot use ${beside} as a drafter: it has no config.json and no model*.safetensors; ${needs}; found nothing`);
    // Nothing says that such a folder is meant.
    own("auto");
    Deno.writeTextFileSync(join(beside, "config.json"), '{"model_type": "eagle3"}');
    const half = `Cannot use ${beside} as a drafter: it has no model*.safetensors; ${needs}; found config.json`;
    assertEquals(assertThrows(check, ModelFileError).message, half);
    for (const kind of ["auto", "eagle3"] as const) assertEquals(assertThrows(() => own(kind), ModelFileError).message, half);
    own("ngram");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("a drafter's folder that is not there, or holds another kind, is told without the model", () => {
  const check = (draftModel: string, draftKind: DraftSettings["draftKind"] = "auto"): void =>
    checkDraftFlags({ noSpeculation: false, draftModel, draftKind, draftTokens: null });
  assertThrows(
    () => check("/absent/drafter"),
    ModelFileError,
    "Cannot use /absent/drafter as a drafter: it does not exist; expected a folder",
  );
  assertThrows(() => check(fileURLToPath(import.meta.url)), ModelFileError, "as a drafter: it is a file; expected a folder");
  assertThrows(() => check(fixture("golden/llama-tied-f32")), ModelFileError, 'model_type "llama" is none of mtp, eagle3, dflash');
  const kinds = [["eagle3", "an EAGLE-3 drafter"], ["dflash", "a DFlash drafter"], ["qwen3_5-mtp", "an MTP head"]] as const;
  for (const [name, found] of kinds) {
    const folder = fixture(`drafters/${name}/drafter`);
    const own = name === "qwen3_5-mtp" ? "mtp" : name;
    for (const kind of ["mtp", "eagle3", "dflash"] as const) {
      if (kind === own) continue;
      const { message } = assertThrows(() => check(folder, kind), UsageError);
      assertEquals(message, `--draft-kind is "${kind}", and ${folder} holds ${found}; expected "${own}" or "auto"`);
    }
    check(folder, own);
    check(folder);
  }
});

Deno.test("a folder that does not tell its kind is taken for the one that is asked for", () => {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(join(folder, "config.json"), '{"model_type": "qwen3_5"}');
    Deno.copyFileSync(fixture("drafters/qwen3_5-mtp/drafter/model.safetensors"), join(folder, "model.safetensors"));
    const settings: DraftSettings = { noSpeculation: false, draftModel: folder, draftKind: "mtp", draftTokens: null };
    checkDraftFlags(settings);
    assertThrows(() => checkDraftFlags({ ...settings, draftKind: "auto" }), ModelFileError, '"qwen3_5" is none of');
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("a kind that cannot be the model's own is told before the model is read", () => {
  const settings: DraftSettings = { noSpeculation: false, draftModel: null, draftKind: "mtp", draftTokens: null };
  assertThrows(() => checkOwnDrafter("/absent/model.gguf", settings), UsageError, '"mtp", and the model has no such drafter of its own');
  assertThrows(() => checkOwnDrafter("/absent", { ...settings, draftKind: "eagle3" }), UsageError, "no such drafter of its own");
  // Only its config tells whether a folder has an MTP head; and who names a drafter, or wants none, needs none of the model's own.
  checkOwnDrafter("/absent", settings);
  for (const change of [{ draftModel: "x" }, { noSpeculation: true }, { draftKind: "ngram" }, { draftKind: "auto" }] as const) {
    checkOwnDrafter("/absent/model.gguf", { ...settings, ...change });
  }
});

Deno.test("the drafter that lies beside a .gguf file is found by itself, unless another kind or none is wanted", () => {
  const folder = Deno.makeTempDirSync();
  try {
    const path = join(folder, "model.gguf");
    Deno.symlinkSync(requireTestModel(), path);
    assertEquals(chosen(path), { drafter: null });
    Deno.symlinkSync(fixture("drafter/smollm2-135m-instruct-eagle3"), join(folder, "model.drafter"));
    assertEquals(chosen(path)?.drafter?.kind, "eagle3");
    assertEquals(chosen(path, "--draft-kind", "eagle3")?.drafter?.kind, "eagle3");
    assertEquals(chosen(path, "--draft-kind", "ngram")?.drafter, null);
    assertEquals(chosen(path, "--no-speculation"), null);
    assertThrows(() => chosen(path, "--draft-kind", "dflash"), UsageError, "no such drafter of its own");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
