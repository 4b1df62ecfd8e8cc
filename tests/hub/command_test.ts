import { assertEquals, assertRejects } from "@std/assert";
import { CommandError, runCommand, tryCommand } from "../../src/hub/command.ts";

Deno.test("lines of both streams arrive whole, also those that a progress bar ends with a carriage return", async () => {
  const lines: string[] = [];
  await runCommand(["sh", "-c", "printf 'one\\ntwo\\rthree'; printf 'four\\n\\n' >&2"], { onLine: (line) => lines.push(line) });
  assertEquals(lines.sort(), ["four", "one", "three", "two"]);
});

Deno.test("a program that fails gives its exit code and last lines", async () => {
  assertEquals(await tryCommand(["sh", "-c", "echo bad; exit 3"]), { code: 3, tail: ["bad"] });
  await assertRejects(() => runCommand(["sh", "-c", "echo bad; exit 3"]), CommandError, "ended with exit code 3:\nbad");
});

Deno.test("a program that does not exist is exit code 127", async () => {
  const { code } = await tryCommand(["no-such-program-anywhere"]);
  assertEquals(code, 127);
});

Deno.test("only the last forty lines are kept", async () => {
  const { tail } = await tryCommand(["sh", "-c", "for i in $(seq 100); do echo $i; done"]);
  assertEquals([tail.length, tail[0], tail.at(-1)], [40, "61", "100"]);
});

Deno.test("a program that outlives its time is ended", async () => {
  const startedMs = performance.now();
  const { code } = await tryCommand(["sleep", "30"], { timeoutMs: 50 });
  assertEquals(code !== 0 && performance.now() - startedMs < 10_000, true);
});
