import { assertEquals, assertNotEquals } from "@std/assert";
import { join } from "node:path";
import { TINY_MODEL } from "../cli/cli_process.ts";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";

async function tokens(server: RealServer, fields: Record<string, unknown>): Promise<number[]> {
  const body = { prompt: [1, 2, 3, 4], max_tokens: 12, seed: 5, ignore_eos: true, return_token_ids: true, ...fields };
  const json: Json = await (await server.post("/v1/completions", body)).json();
  return json.choices[0].token_ids;
}

/** Serves the tiny checkpoint with a generation_config.json beside it. */
async function withDefaults(config: Record<string, unknown>, body: (server: RealServer) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    for (const name of ["config.json", "model.safetensors"]) await Deno.copyFile(join(TINY_MODEL, name), join(folder, name));
    await Deno.writeTextFile(join(folder, "generation_config.json"), JSON.stringify(config));
    await withRealServer({ modelPath: folder, maxContext: 64 }, body);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("generation_config.json fills what a request leaves out, a request's own value wins, and the model's page shows the defaults", async () => {
  await withDefaults({ temperature: 1.5, top_k: 1, repetition_penalty: 1.25, min_p: 9, eos_token_id: 2 }, async (server) => {
    const { data: [{ id }] } = await server.getJson("/v1/models");
    const { sampling_defaults } = await server.getJson(`/v1/models/${id}`);
    assertEquals(sampling_defaults, { temperature: 1.5, top_k: 1, repetition_penalty: 1.25 });
    const filled = await tokens(server, {});
    assertEquals(filled, await tokens(server, { temperature: 1.5, top_k: 1, repetition_penalty: 1.25, min_p: 0 }));
    assertEquals(filled, await tokens(server, { temperature: 0 }));
    assertNotEquals(filled, await tokens(server, { top_k: 0 }));
    assertNotEquals(filled, await tokens(server, { repetition_penalty: 1 }));
    assertEquals(filled, await tokens(server, { temperature: null, top_k: null, repetition_penalty: null }));
  });
});

Deno.test("do_sample false makes a request greedy that names no temperature", async () => {
  await withDefaults({ do_sample: false, temperature: 1.5 }, async (server) => {
    assertEquals(await tokens(server, { seed: 1 }), await tokens(server, { seed: 2 }));
    assertNotEquals(await tokens(server, { temperature: 1.5, seed: 1 }), await tokens(server, { temperature: 1.5, seed: 2 }));
  });
});
