/** What the compiled program answers, alone and without a network, is what the source answers. */
import { assert, assertEquals } from "@std/assert";
import { timeStream } from "../../src/cli/bench/stream_client.ts";
import { ServerProcess } from "../cli/cli_process.ts";
import { compiledPath, CompiledProgram } from "./compiled_program.ts";
import { askAll } from "./questions.ts";

/** In this mode texts are the same bits whatever shares a step, so that eight questions at once can be compared. */
const FLAGS = ["--batch-invariant", "--max-context", "1024"];
/** Machines that run tests are slow and busy; the figures themselves are printed. */
const MAX_FIRST_TOKEN_MS = 60_000;

Deno.test("there is no network but loopback", () => {
  const kind = Deno.env.get("ROWLOCK_TEST_NETWORK");
  if (kind === "loopback") assertEquals(Deno.networkInterfaces().filter(({ address }) => !/^(127\.|::1$)/.test(address)), []);
  else assertEquals([kind, Deno.env.get("HTTPS_PROXY")], ["proxies", "http://127.0.0.1:9"]);
});

Deno.test("the program with the model answers eight mixed questions at once as the source does", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED_WITH_MODEL"));
  const found = await (async () => {
    await using server = await program.serve(...FLAGS);
    return await askAll(server.url);
  })();
  await using source = await ServerProcess.start(...FLAGS);
  const expected = await askAll(source.url);
  assertEquals(expected.length, 8);
  assertEquals(found, expected);
});

Deno.test("the program answers soon after its first start, and sooner after the next one", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED_WITH_MODEL"));
  const firstMs = await timeToFirstToken(program);
  const nextMs = await timeToFirstToken(program);
  console.log(`start to first token: ${Math.round(firstMs)} ms the first time, ${Math.round(nextMs)} ms the next`);
  assert(firstMs < MAX_FIRST_TOKEN_MS && nextMs < MAX_FIRST_TOKEN_MS, `${firstMs} ms, then ${nextMs} ms`);
});

async function timeToFirstToken(program: CompiledProgram): Promise<number> {
  const startedMs = performance.now();
  await using server = await program.serve();
  const listeningMs = performance.now() - startedMs;
  const body = { messages: [{ role: "user", content: "Hello" }], max_tokens: 2, temperature: 0 };
  return listeningMs + (await timeStream({ name: "rowlock", url: server.url, model: "default" }, body)).ttftMs;
}
