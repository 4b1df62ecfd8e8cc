/** Every kind of drafter through the engine against the golden rounds: drafts, acceptance and what is emitted, alone, together and in chunks. */
import { fileURLToPath } from "node:url";
import { assertEquals } from "@std/assert";
import type { Drafter, DraftWish, Offering } from "../../src/engine/drafter.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { DrafterSpec, DraftKind } from "../../src/engine/messages.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import type { RowColumn } from "../../src/engine/rows.ts";
import type { Sequence } from "../../src/engine/sequence.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import type { StepPlan } from "../../src/engine/step_plan.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import { findLibrary } from "../../src/native/library.ts";
import { CoreRun, LIMITS, request } from "./requests.ts";

const FOLDER = new URL("../fixtures/drafters/", import.meta.url);

interface Golden {
  readonly block_sizes: readonly number[];
  readonly max_tokens: number;
  readonly prompts: readonly {
    readonly tokens: readonly number[];
    readonly greedy: readonly number[];
    readonly rounds: Readonly<Record<string, readonly { drafts: readonly number[]; accepted: number; emitted: readonly number[] }[]>>;
  }[];
}

/** Notes what a drafter proposes. */
class RecordingDrafter implements Drafter {
  readonly kind: DraftKind;
  readonly maxDrafts: number;
  readonly columns: readonly RowColumn[];
  readonly drafts = new Map<string, number[][]>();

  constructor(readonly inner: ModelDrafter) {
    ({ kind: this.kind, maxDrafts: this.maxDrafts, columns: this.columns } = inner);
  }

  offer(sequence: Sequence): Offering | null {
    return this.inner.offer(sequence);
  }

  propose(wishes: readonly DraftWish[]): void {
    this.inner.propose(wishes);
    for (const { sequence } of wishes) {
      if (sequence.isPrefilling) continue;
      this.drafts.set(sequence.id, [...this.drafts.get(sequence.id) ?? [], [...sequence.drafts]]);
    }
  }

  observe(plan: StepPlan, isOwn: (sequence: Sequence) => boolean): void {
    this.inner.observe(plan, isOwn);
  }
}

interface Loaded {
  readonly backend: NativeBackend;
  readonly golden: Golden;
  readonly vocabSize: number;
}

function load(name: string, drafterFolder: string): Loaded {
  const [folder, own] = [name, `${name}/${drafterFolder}`].map((path) => fileURLToPath(new URL(path, FOLDER))) as [string, string];
  const model = loadModel(folder, { dtype: "float32" });
  const drafter: DrafterSpec = loadDrafter(own, model);
  return {
    backend: NativeBackend.load(findLibrary(), model.spec, false, drafter),
    golden: JSON.parse(Deno.readTextFileSync(new URL(`${name}/golden.json`, FOLDER))),
    vocabSize: model.vocabSize,
  };
}

/** A row drafts no further than its budget, while the golden rounds do: the last round is compared by what it emits. */
function checkRounds({ backend, golden, vocabSize }: Loaded, blockSize: number, prompts: readonly number[], prefillChunk: number): void {
  const drafter = new RecordingDrafter(new ModelDrafter(backend.drafter!, blockSize - 1, vocabSize));
  const core = new EngineCore(
    backend,
    { ...LIMITS, maxBatch: 8, prefillChunk },
    undefined,
    new Speculation([drafter], { isAdaptive: false }),
  );
  const run = new CoreRun(core);
  const maxTokens = golden.max_tokens;
  run.submit(...prompts.map((p) => request(`p${p}`, { promptIds: golden.prompts[p]!.tokens, maxTokens }))).finish();
  const { isKvSparse, kvBytesPerSlot = 0 } = backend.facts;
  if (isKvSparse) {
    assertEquals(backend.memory().kvBytes, core.room.slots * kvBytesPerSlot, "Rows and histories that have left hold nothing");
  }
  core.releaseMemory();
  for (const p of prompts) {
    const id = `p${p}`;
    const what = `prompt ${p}, block size ${blockSize}, chunks of ${prefillChunk}`;
    assertEquals(run.tokens(id), [...golden.prompts[p]!.greedy], what);
    const updates = run.answers.get(id)!.updates.slice(1);
    let numLeft = maxTokens - 1;
    for (const [i, expected] of golden.prompts[p]!.rounds[blockSize]!.entries()) {
      assertEquals(updates[i]?.tokens, expected.emitted, `${what}, round ${i}`);
      if (numLeft >= blockSize) {
        assertEquals(drafter.drafts.get(id)?.[i], expected.drafts, `${what}, round ${i}`);
        assertEquals(updates[i]?.round?.numAccepted, expected.accepted, `${what}, round ${i}`);
      }
      numLeft -= expected.emitted.length;
    }
  }
}

function testCase(name: string, drafterFolder: string, what: string): void {
  Deno.test(`${what} drafts the golden rounds in the engine, alone, in one batch and with prompts in chunks`, () => {
    const loaded = load(name, drafterFolder);
    try {
      const indices = loaded.golden.prompts.map((_, i) => i);
      for (const blockSize of loaded.golden.block_sizes) {
        for (const index of indices) checkRounds(loaded, blockSize, [index], 64);
        checkRounds(loaded, blockSize, indices, 64);
        checkRounds(loaded, blockSize, [...indices].reverse(), 3);
      }
    } finally {
      loaded.backend.close();
    }
  });
}

testCase("qwen3_5-mtp", ".", "The MTP head of the model's own checkpoint");
testCase("qwen3_5-mtp", "drafter", "The MTP head in a folder of its own");
testCase("eagle3", "drafter", "EAGLE-3");
testCase("eagle3-norms", "drafter", "EAGLE-3 with norms before the fusion and the residual");
testCase("dflash", "drafter", "DFlash");
testCase("dflash-qwen3_5", "drafter", "DFlash on a model with recurrent layers");
