import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { servingBytes } from "../../src/cli/allowed_memory.ts";
import { checkMemory } from "../../src/cli/least_memory.ts";
import { EngineError } from "../../src/engine/engine.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { modelTest } from "../test_model.ts";
import { runMain, ServerProcess } from "./cli_process.ts";

Deno.test("weights and a step that leave no room are refused with the least that works, and what fits is not", () => {
  const model = loadModel(fileURLToPath(new URL("../fixtures/golden/llama-tied-f32", import.meta.url)));
  const plan = { weightBytes: 1e9, numStepTokens: 272, memoryBytes: 1e9, hasDisk: false };
  const error = assertThrows(() => checkMemory(model, plan), EngineError);
  assertEquals((error as EngineError).code, "out_of_memory");
  assertStringIncludes(error.message, "1.0 GB of weights");
  assertStringIncludes(error.message, "memory allows 1.0 GB for models: the least that works is --memory 1.3");
  checkMemory(model, { ...plan, memoryBytes: 1.1e9 });
  const withDisk = assertThrows(() => checkMemory(model, { ...plan, hasDisk: true, programBytes: 1e9 }), EngineError);
  assertStringIncludes(withDisk.message, "the least that works is --memory 2.0");
});

modelTest("the --memory that is named as the least that works is that", async (model) => {
  const tooLittle = (servingBytes({ maxBody: 16 }) + 5e7) / 1e9;
  const refused = await runMain("serve", "--port", "0", "--model", model, "--memory", tooLittle.toFixed(3));
  assertEquals(refused.code, 1);
  // One line, and nothing was loaded before it.
  assertEquals([refused.stderr.trimEnd().split("\n").length, refused.stdout.includes("engine on")], [1, false]);
  const least = /the least that works is --memory (\d+\.\d\d)\n/.exec(refused.stderr)?.[1] ?? "none";
  const below = await runMain("serve", "--port", "0", "--model", model, "--memory", (Number(least) - 0.02).toFixed(2));
  assertEquals(below.code, 1);
  await using server = await ServerProcess.start("--model", model, "--memory", least, "--log-level", "error");
  assertStringIncludes(server.output, "listening on");
});
