import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { doctor } from "../../src/cli/doctor.ts";
import { runMain } from "./cli_process.ts";

Deno.test("the doctor tells all that it finds, and its exit code whether anything is wrong", async () => {
  const lines: string[] = [];
  const good = { name: "water", look: () => Promise.resolve("is wet") };
  const bad = { name: "fire", look: () => Promise.reject(new Error("is out")) };
  assertEquals(await doctor([bad, good], (line) => void lines.push(line)), 1);
  assertEquals(lines, ["WRONG  fire   is out", "ok     water  is wet", "\n1 of 2 checks found something wrong."]);
  assertEquals(await doctor([good], () => {}), 0);
});

Deno.test("on this machine it finds the library and its device", async () => {
  const { stdout } = await runMain("doctor");
  assertMatch(stdout, /^ok +library +\S.*\n +device (cpu|metal), MLX \d/m);
  for (const name of ["program", "memory", "cache", "model", "port"]) assertMatch(stdout, new RegExp(`^(ok|WRONG) +${name} `, "m"));
});

Deno.test("a library that is not there is what is wrong", async () => {
  const saved = Deno.env.get("ROWLOCK_LIBRARY");
  Deno.env.set("ROWLOCK_LIBRARY", "no/such/library.so");
  try {
    const { code, stdout } = await runMain("doctor");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "WRONG  library  Rowlock's native library was not found (looked at no/such/library.so)");
  } finally {
    if (saved === undefined) Deno.env.delete("ROWLOCK_LIBRARY");
    else Deno.env.set("ROWLOCK_LIBRARY", saved);
  }
});
