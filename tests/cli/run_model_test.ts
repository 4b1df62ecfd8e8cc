import { assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { modelTest } from "../test_model.ts";
import { runMain, TINY_MODEL } from "./cli_process.ts";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));

modelTest("a conversation through a pipe gives the answers alone and ends with the input", async (model) => {
  const args = ["run", "-A", "--no-check", MAIN, "run", model, "--system", "You are terse."];
  const child = new Deno.Command(Deno.execPath(), { args, stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode("/set temperature 0\n/set max_tokens 4\nName a river.\nName a river.\n/set\n"));
  await writer.close();
  const { code, stdout } = await child.output();
  const lines = new TextDecoder().decode(stdout).split("\n");
  const cut = "(cut: max_tokens or the context's end was reached)";
  const set = ["temperature 0", "top_p 0.9", "repetition_penalty 1.1", "max_tokens 4", ""];
  assertEquals([code, lines[1], lines[3], lines.slice(4)], [0, cut, cut, set]);
  assertEquals(lines[0]!.length > 3, true);
});

modelTest("when nobody reads the answer any more, the conversation ends without a word", async (model) => {
  const args = ["run", "-A", "--no-check", MAIN, "run", model];
  const child = new Deno.Command(Deno.execPath(), { args, stdin: "piped", stdout: "piped", stderr: "piped" }).spawn();
  const errors = new Response(child.stderr).text();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode("Write a long story.\nAnother one.\n"));
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
  const { code } = await child.status;
  assertEquals([code, await errors], [0, ""]);
  await writer.abort().catch(() => {});
});

Deno.test("a model that cannot chat is one line that says why", async () => {
  const { code, stdout, stderr } = await runMain("run", TINY_MODEL);
  assertEquals([code, stdout], [1, ""]);
  assertStringIncludes(stderr, "llama-tied-f32 has no tokenizer: it cannot chat");
});

Deno.test("a drafter that is not there is told before the model is read", async () => {
  const { code, stdout, stderr } = await runMain("run", TINY_MODEL, "--draft-model", "no/such/drafter");
  assertEquals([code, stdout], [1, ""]);
  assertStringIncludes(stderr, "no/such/drafter as a drafter: it does not exist");
});
