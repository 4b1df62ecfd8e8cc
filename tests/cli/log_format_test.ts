import { assert, assertEquals, assertMatch } from "@std/assert";
import { ServerProcess, TINY_MODEL } from "./cli_process.ts";

/** The log of a server that has had a request that was served and one that was refused. */
async function logOf(...flags: string[]): Promise<string[]> {
  await using server = await ServerProcess.start("--model", TINY_MODEL, ...flags);
  for (const fields of [{}, { temperature: -1 }]) {
    const body = JSON.stringify({ prompt: [1, 2, 3], max_tokens: 4, ignore_eos: true, ...fields });
    const headers = { "content-type": "application/json", "x-request-id": "own-id" };
    await (await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body })).body?.cancel();
  }
  server.kill("SIGTERM");
  return (await server.ended()).log.split("\n").filter((line) => line.includes("own-id"));
}

Deno.test("--log-format json writes an object a request, with its times; text writes a readable line", async () => {
  const [served, refused] = (await logOf("--log-format", "json")).map((line) => JSON.parse(line));
  assertEquals([served.method, served.path, served.status, served.outcome], ["POST", "/v1/completions", 200, "ok"]);
  assertEquals([served.requestId, served.promptTokens, served.completionTokens], ["own-id", 3, 4]);
  for (const name of ["durationMs", "queueMs", "prefillMs", "decodeMs", "tokensPerSecond"]) {
    assert(served[name] >= 0, `${name} is ${served[name]}`);
  }
  assertEquals([refused.status, refused.outcome, "queueMs" in refused], [422, "out_of_range", false]);
  const lines = await logOf("--log-format", "text", "--log-level", "info");
  assertMatch(
    lines[0]!,
    new RegExp(
      "^\\d\\d:\\d\\d:\\d\\d {2}POST {2}/v1/completions {2}200 {2}\\d+ ms {2}prompt 3 {2}generated 4 {2}" +
        "queue \\d+ ms {2}prefill \\d+ ms {2}decode \\d+ ms {2}[\\d.]+ tok/s {2}own-id$",
    ),
  );
  assertMatch(lines[1]!, / {2}422 {2}\d+ ms {2}out_of_range {2}own-id$/);
});
