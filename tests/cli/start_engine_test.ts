import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { contextNote, type EngineSettings, startEngine, warnOfDraftFailures } from "../../src/cli/start_engine.ts";
import { EngineError } from "../../src/engine/engine.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import { FakeEngine } from "../server/fakes.ts";
import { TINY_MODEL } from "./cli_process.ts";

const SETTINGS: Omit<EngineSettings, "libraryPath"> = {
  maxBatch: 2,
  maxContext: null,
  maxQueue: 2,
  prefillChunk: 32,
  prefixCacheMb: 1,
  batchInvariant: false,
  noSpeculation: true,
  draftModel: null,
  draftKind: "auto",
  draftTokens: null,
  memoryBytes: 1e9,
  prefixDisk: null,
};

Deno.test("the first failure of a drafter is told, and those after it are not", () => {
  const engine = new FakeEngine();
  const lines: string[] = [];
  warnOfDraftFailures(engine, (text) => lines.push(text));
  engine.step({});
  assertEquals(lines, []);
  engine.step({ draftFailures: { count: 2, message: "No memory" } });
  engine.step({ draftFailures: { count: 3, message: "No memory again" } });
  assertEquals(lines, ["a drafter failed, its requests go on without drafts: No memory"]);
});

Deno.test("a context that the model does not have is told with what is served", () => {
  const model = { maxContext: 2048 };
  assertEquals(
    contextNote(model, { maxContext: 4096 }),
    "--max-context is 4096, and the model holds 2048: requests of up to 2048 tokens are served",
  );
  for (const maxContext of [null, 16, 2048]) assertEquals(contextNote(model, { maxContext }), null);
});

Deno.test("a load that fails is told without the name of the function that failed", async () => {
  const model = loadModel(TINY_MODEL);
  const odd = { ...model, spec: { ...model.spec, config: { ...model.spec.config, kv_bits: "7" } } };
  const start = () => startEngine(odd, { ...SETTINGS, libraryPath: findLibrary() }, () => {});
  const { message } = await assertRejects(start, EngineError, "kv_bits is 7");
  assert(!message.includes("rl_"), message);
});

Deno.test("the start tells the length of a row that memory holds, and the folder that keeps prefixes", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const lines: string[] = [];
    const libraryPath = findLibrary();
    const model = loadModel(TINY_MODEL);
    // Weights and a few hundred tokens.
    const engine = await startEngine(model, { ...SETTINGS, libraryPath, memoryBytes: 1.6e6 }, (text) => lines.push(text));
    const { maxRowTokens = Infinity } = engine.facts;
    await engine.close();
    assert(maxRowTokens < model.maxContext, `${maxRowTokens} of ${model.maxContext} tokens`);
    assertStringIncludes(lines.join("\n"), `2 rows of up to ${maxRowTokens} tokens`);
    const prefixDisk = { folder, maxBytes: 5e6 };
    await (await startEngine(model, { ...SETTINGS, libraryPath, prefixDisk }, (text) => lines.push(text))).close();
    assertStringIncludes(lines.join("\n"), `prefixes take up to 1 MB of what rows leave, and 5 MB in ${folder}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
