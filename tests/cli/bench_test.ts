import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { caseKey, LEGEND, median, report } from "../../src/cli/bench/report.ts";
import { describeServer } from "../../src/cli/bench/describe_server.ts";
import { type BenchServer, timeStream } from "../../src/cli/bench/stream_client.ts";
import { UsageError } from "../../src/cli/flags.ts";
import { MODES, requestBody } from "../../src/cli/bench/workload.ts";
import { runMain } from "./cli_process.ts";

async function withServer(body: string, run: (server: BenchServer) => Promise<void>, status = 200): Promise<void> {
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => new Response(body, { status }));
  await run({ name: "fake", url: `http://127.0.0.1:${(server.addr as Deno.NetAddr).port}`, model: "m" });
}

function delta(content: string): string {
  return `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;
}

Deno.test("a stream is counted by its usage, or by its deltas where there is none", async () => {
  const text = `: a comment\r\n\r\n${delta("")}${delta("a\r")}${delta("b")}`;
  await withServer(`${text}data: [DONE]\n\n`, async (server) => assertEquals((await timeStream(server, {})).numTokens, 2));
  const usage = `data: ${JSON.stringify({ choices: [], usage: { completion_tokens: 5 } })}\n\n`;
  await withServer(`${text}${usage}data: [DONE]\n\n`, async (server) => assertEquals((await timeStream(server, {})).numTokens, 5));
});

Deno.test("an error status, an error event and an empty stream are errors", async () => {
  await withServer("no", async (server) => void await assertRejects(() => timeStream(server, {}), Error, "fake answered 503: no"), 503);
  const event = 'data: {"error":{"message":"broken"}}\n\n';
  await withServer(event, async (server) => void await assertRejects(() => timeStream(server, {}), Error, "broken"));
  await withServer("data: [DONE]\n\n", async (server) => void await assertRejects(() => timeStream(server, {}), Error, "without a token"));
});

Deno.test("the table shows medians over runs and rows", () => {
  assertEquals([median([3, 1, 2]), median([1, 2, 3, 10])], [2, 2.5]);
  const server = { name: "rowlock", url: "", model: "" };
  const samples = new Map(MODES.map((mode, index) => [caseKey(server, mode, 2), [
    { tokensPerSecond: 10 * index, ttftMs: [1, 3] },
    { tokensPerSecond: 10 * index + 5, ttftMs: [5, 7] },
  ]]));
  assertStringIncludes(report([server], [2], samples), "| rowlock | 2 | 2.5 | 4 | 12.5 | 4 | 22.5 | 4 |");
});

Deno.test("every column of the table, and every way of sampling, is explained below it", () => {
  const [head = ""] = report([], [], new Map()).split("\n");
  const titles = head.split("|").map((cell) => cell.trim()).filter((cell) => cell !== "");
  const names = new Set(titles.flatMap((title) => MODES.some((mode) => title.startsWith(mode)) ? title.split(" ") : [title]));
  assertEquals(names, new Set(["server", "rows", "greedy", "tok/s", "TTFT ms", "shared", "distinct"]));
  for (const name of names) assertMatch(LEGEND, new RegExp(`^${name} +[a-z]`, "m"));
});

Deno.test("a server that runs and a model to start one with are a contradiction", async () => {
  const { code, stderr } = await runMain("bench", "--url", "http://127.0.0.1:1", "--model", "x");
  assertEquals(code, 2);
  assertMatch(stderr, /--url and --model are both given, expected one of them/);
});

Deno.test("greedy rows are greedy, shared rows equal and distinct rows all different", () => {
  const settings = (mode: (typeof MODES)[number], index: number): string => {
    const { messages: _, ...rest } = requestBody(mode, index, 8);
    return JSON.stringify(rest);
  };
  assertEquals(requestBody("greedy", 3, 8)["temperature"], 0);
  assertEquals(new Set(Array.from({ length: 16 }, (_, index) => settings("shared", index))).size, 1);
  assertEquals(new Set(Array.from({ length: 16 }, (_, index) => settings("distinct", index))).size, 16);
});

Deno.test("the numbers of requests are checked before a server is started", async () => {
  const { code, stderr } = await runMain("bench", "--rows", "1,none");
  assertEquals(code, 2);
  assertMatch(stderr, /--rows has "none", expected whole numbers from 1/);
});

Deno.test("a server to measure is named in every error: no URL, nobody there, another protocol, an error status", async () => {
  for (const url of ["localhost:8080", "ftp://localhost", "http://"]) {
    await assertRejects(() => describeServer("--url", url), UsageError, `--url is "${url}", expected a URL`);
  }
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const gone = await assertRejects(() => describeServer("--peer", `http://127.0.0.1:${port}/v1`), Error);
  assertEquals(gone.message, `--peer: no server answers at http://127.0.0.1:${port} (Connection refused)`);
  await withServer("<html>", async ({ url }) => void await assertRejects(() => describeServer("--url", url), Error, "found <html>"));
  await withServer("no", async ({ url }) => void await assertRejects(() => describeServer("--url", url), Error, "answered 401: no"), 401);
  await withServer('{"data":[{"id":"m"}]}', async ({ url }) => {
    assertEquals(await describeServer("--url", `${url}/v1/`), { name: url, url, model: "m" });
  });
});
