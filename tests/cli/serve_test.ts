import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { helpText } from "../../src/cli/help.ts";
import { versionText } from "../../src/cli/version.ts";
import { runMain, ServerProcess, TINY_MODEL } from "./cli_process.ts";

const PROMPT = { prompt: [1, 2, 3], temperature: 0, return_token_ids: true, ignore_eos: true };

function complete(url: string, body: Record<string, unknown>): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(`${url}/v1/completions`, { method: "POST", headers, body: JSON.stringify({ ...PROMPT, ...body }) });
}

/** The error is one line, says who speaks and ends with a line feed. */
function assertOneErrorLine(stderr: string, includes: string): void {
  assertMatch(stderr, /^rowlock: [^\n]+\n$/);
  assertStringIncludes(stderr, includes);
}

Deno.test("help and version are printed with exit code 0", async () => {
  assertEquals(await runMain("--help"), { code: 0, stdout: `${helpText()}\n`, stderr: "" });
  assertEquals(await runMain("serve", "--version"), { code: 0, stdout: `${versionText(null)}\n`, stderr: "" });
});

Deno.test("a bad flag is one line and exit code 2", async () => {
  const { code, stdout, stderr } = await runMain("serve", "--port", "eighty");
  assertEquals([code, stdout], [2, ""]);
  assertOneErrorLine(stderr, '--port is "eighty", expected a whole number from 0 to 65535');
});

Deno.test("a model that is missing or broken is one line that names it and exit code 1", async () => {
  const missing = await runMain("serve", "--port", "0", "--model", "no/such/model.gguf");
  assertEquals(missing.code, 1);
  assertOneErrorLine(missing.stderr, "no/such/model.gguf");
  const folder = await Deno.makeTempDir();
  try {
    const path = join(folder, "broken.gguf");
    await Deno.writeTextFile(path, "GGUF but then nothing that makes sense");
    const broken = await runMain("serve", "--port", "0", "--model", path);
    assertEquals(broken.code, 1);
    assertOneErrorLine(broken.stderr, "broken.gguf");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a port in use is one line that names it and exit code 1, before anything is loaded", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const { code, stdout, stderr } = await runMain("serve", "--port", `${port}`, "--model", TINY_MODEL);
  assertEquals([code, stdout], [1, ""]);
  assertOneErrorLine(stderr, `Port ${port} on 127.0.0.1 is in use`);
});

Deno.test("what was typed wrong is told before a port that is in use", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const port = `${(listener.addr as Deno.NetAddr).port}`;
  const both = await runMain("serve", "--port", port, "--model", TINY_MODEL, "--models", TINY_MODEL);
  assertEquals(both.code, 2);
  assertOneErrorLine(both.stderr, "--model and --models are both given");
  for (const flags of [["--model", "no/such/model.gguf"], ["--models", `${TINY_MODEL},no/such/model.gguf`]]) {
    const missing = await runMain("serve", "--port", port, ...flags);
    assertEquals(missing.code, 1);
    assertOneErrorLine(missing.stderr, "There is no file or folder no/such/model.gguf");
  }
  const drafter = await runMain("serve", "--port", port, "--model", TINY_MODEL, "--draft-model", "no/such/drafter");
  assertEquals([drafter.code, drafter.stdout], [1, ""]);
  assertOneErrorLine(drafter.stderr, "no/such/drafter as a drafter: it does not exist");
  const folder = await Deno.makeTempDir();
  try {
    for (const text of ["<html>", "GG", ""]) {
      const path = join(folder, "page.gguf");
      await Deno.writeTextFile(path, text);
      const page = await runMain("serve", "--port", port, "--model", path);
      assertEquals([page.code, page.stdout], [1, ""]);
      assertOneErrorLine(page.stderr, `page.gguf: it begins with "${text.slice(0, 4)}", expected "GGUF"`);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a library that does not exist is one line that says what to run", async () => {
  const saved = Deno.env.get("ROWLOCK_LIBRARY");
  Deno.env.set("ROWLOCK_LIBRARY", "no/such/library.so");
  try {
    const { code, stderr } = await runMain("serve", "--port", "0", "--model", TINY_MODEL);
    assertEquals(code, 1);
    assertOneErrorLine(stderr, "deno task setup");
  } finally {
    if (saved === undefined) Deno.env.delete("ROWLOCK_LIBRARY");
    else Deno.env.set("ROWLOCK_LIBRARY", saved);
  }
});

Deno.test("a server answers, takes its flags to heart, and ends with exit code 0 when it is told to", async () => {
  await using server = await ServerProcess.start("--model", TINY_MODEL, "--api-key", "sesame", "--max-context", "32");
  assertEquals(
    (await complete(server.url, { max_tokens: 4 }).then(async (response) => (await response.body?.cancel(), response))).status,
    401,
  );
  const headers = { "content-type": "application/json", authorization: "Bearer sesame" };
  const ask = (body: unknown): Promise<Response> =>
    fetch(`${server.url}/v1/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await (await ask({ ...PROMPT, max_tokens: 4 })).json();
  assertEquals(answer.choices[0].token_ids.length, 4);
  const tooLong = await ask({ ...PROMPT, prompt: Array(40).fill(1), max_tokens: 4 });
  assertEquals([tooLong.status, (await tooLong.json()).error.code], [400, "context_length_exceeded"]);
  server.kill("SIGTERM");
  const { code, signal, log } = await server.ended();
  assertEquals([code, signal], [0, null]);
  assertStringIncludes(log, "POST  /v1/completions  200");
});

Deno.test("on SIGTERM a stream that runs is finished first", async () => {
  await using server = await ServerProcess.start("--model", TINY_MODEL, "--log-level", "error");
  const response = await complete(server.url, { stream: true, max_tokens: 200 });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? "";
  server.kill("SIGTERM");
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  assertStringIncludes(text, '"finish_reason":"length"');
  assertEquals(text.endsWith("data: [DONE]\n\n"), true);
  assertEquals((await server.ended()).code, 0);
});

/** A stream that runs for as long as nobody ends it, and what comes after its first part. */
async function longStream(url: string): Promise<{ readonly rest: Promise<string> }> {
  const response = await complete(url, { stream: true });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  const rest = async (): Promise<string> => {
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    return text;
  };
  return { rest: rest() };
}

Deno.test("a second signal ends running streams at once with an error event", async () => {
  await using server = await ServerProcess.start("--model", TINY_MODEL, "--max-context", "100000", "--log-level", "error");
  const { rest } = await longStream(server.url);
  server.kill("SIGTERM");
  server.kill("SIGINT");
  const text = await rest;
  assertEquals((await server.ended()).code, 0);
  assertStringIncludes(text, '"error":{');
  assertEquals(text.includes('"finish_reason":"length"'), false);
});

Deno.test("one Ctrl-C that arrives twice lets a stream finish", async () => {
  await using server = await ServerProcess.start("--model", TINY_MODEL, "--log-level", "error");
  const { rest } = await longStream(server.url);
  server.kill("SIGINT");
  await new Promise((resolve) => setTimeout(resolve, 50));
  server.kill("SIGINT");
  const text = await rest;
  assertEquals((await server.ended()).code, 0);
  assertStringIncludes(text, '"finish_reason":"length"');
});
