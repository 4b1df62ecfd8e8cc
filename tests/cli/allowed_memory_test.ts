import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { allowedMemory, servingBytes } from "../../src/cli/allowed_memory.ts";
import { lookAtMachine } from "../../src/cli/machine.ts";
import { findLibrary } from "../../src/native/library.ts";
import { runMain, ServerProcess, TINY_MODEL } from "./cli_process.ts";

const PROGRAM_BYTES = 320 * 2 ** 20;

Deno.test("without --memory models may take 80 % of what is free, the program's own memory aside", () => {
  const { modelBytes, text } = allowedMemory(null, 10e9);
  assertEquals(modelBytes, 8e9 - PROGRAM_BYTES);
  assertEquals(text, "memory: 8.0 GB (80 % of the 10.0 GB that are free), 336 MB of it for the program");
});

Deno.test("--memory is taken as it is, and told apart when it is more than there is", () => {
  assertEquals(allowedMemory(2, 10e9).modelBytes, 2e9 - PROGRAM_BYTES);
  assertEquals(allowedMemory(2, 10e9).text, "memory: 2.0 GB (by --memory), 336 MB of it for the program");
  assertStringIncludes(allowedMemory(20, 10e9).text, "by --memory, more than the 10.0 GB that are free");
});

Deno.test("a server's share holds the bodies of requests too, twice what they may have, and is said", () => {
  assertEquals(servingBytes({ maxBody: 16 }), PROGRAM_BYTES + 64 * 2 ** 20);
  assertEquals(servingBytes({ maxBody: 100 }), PROGRAM_BYTES + 400 * 2 ** 20);
  const { modelBytes, text } = allowedMemory(2, 10e9, servingBytes({ maxBody: 16 }));
  assertEquals([modelBytes, text], [2e9 - PROGRAM_BYTES - 64 * 2 ** 20, "memory: 2.0 GB (by --memory), 403 MB of it for the program"]);
});

Deno.test("where nothing is left for a model it is one line with the numbers", () => {
  assertThrows(() => allowedMemory(0.2, 10e9), Error, "--memory allows 200 MB; the program itself takes about 336 MB");
  assertThrows(() => allowedMemory(null, 0.3e9), Error, "300 MB of memory are free; the program itself takes about 336 MB");
});

Deno.test("what is free is no more than the machine has, and no more than the control groups allow", () => {
  const { freeBytes: numFree } = lookAtMachine(findLibrary());
  assert(numFree > 0 && numFree <= Deno.systemMemoryInfo().total, `${numFree} bytes are free`);
});

Deno.test("a server says at its start how the memory is shared, and refuses what could never fit with the numbers", async () => {
  // The tiny model's weights and a few hundred tokens on top of the program.
  await using server = await ServerProcess.start("--model", TINY_MODEL, "--memory", "0.4066", "--log-level", "error");
  const limit = Number(/one request at most (\d+)/.exec(server.output)?.[1]);
  assert(limit > 0 && limit % 64 === 0, server.output);
  assertStringIncludes(server.output, "memory: 407 MB (by --memory), 403 MB of it for the program");
  const post = (length: number): Promise<Response> =>
    fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: Array(length).fill(5), max_tokens: 1, ignore_eos: true }),
    });
  const refused = await post(limit);
  const { error } = await refused.json();
  assertEquals([refused.status, error.code], [400, "context_length_exceeded"]);
  assertStringIncludes(
    error.message,
    `memory (--memory) holds ${limit} tokens of one request, prompt and answer together; found a prompt of ${limit} tokens`,
  );
  const served = await post(limit - 1);
  assertEquals([served.status, (await served.json()).usage.completion_tokens], [200, 1]);
});

Deno.test("a model that does not fit with one request is one line before the server listens", async () => {
  const { code, stderr } = await runMain("serve", "--port", "0", "--model", TINY_MODEL, "--memory", "0.40268");
  assertEquals(code, 1);
  assertStringIncludes(stderr, "with the shortest of requests; memory allows");
});
