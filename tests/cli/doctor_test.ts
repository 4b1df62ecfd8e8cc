import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describePort, doctor } from "../../src/cli/doctor.ts";
import { type CliResult, runMain } from "./cli_process.ts";

Deno.test("the doctor tells all that it finds, and its exit code whether anything is wrong", async () => {
  const lines: string[] = [];
  const good = { name: "water", look: () => Promise.resolve("is wet\nand cold") };
  const bad = { name: "fire", look: () => Promise.reject(new Error("is out")) };
  assertEquals(await doctor([bad, good], (line) => void lines.push(line)), 1);
  assertEquals(lines, ["WRONG  fire   is out", "ok     water  is wet\n              and cold", "\n1 of 2 checks found something wrong."]);
  assertEquals(await doctor([good], () => {}), 0);
});

Deno.test("a note is no fault, and the last line says that there is one", async () => {
  const lines: string[] = [];
  const noted = { name: "rain", look: () => Promise.resolve({ note: "comes" }) };
  assertEquals(await doctor([noted], (line) => void lines.push(line)), 0);
  assertEquals(lines, ["note   rain  comes", "\nNothing is wrong. Mind what is noted above."]);
});

Deno.test("a port that is taken is noted when a Rowlock has it, and wrong when another program has it", async () => {
  const taken = async (answer: Response): Promise<unknown> => {
    await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => answer);
    const { port } = server.addr as Deno.NetAddr;
    return await describePort(port).then((found) => ({ found, port }), (error) => ({ error: error.message, port }));
  };
  const { found, port } = await taken(Response.json({ status: "ok", reason: "ok" })) as { found: { note: string }; port: number };
  assertStringIncludes(found.note, `${port} on 127.0.0.1 is in use by a Rowlock that runs; another one needs another port`);
  const { error } = await taken(new Response("hello")) as { error: string };
  assertStringIncludes(error, "is in use by another program");
  assertEquals(await describePort(port), `${port} on 127.0.0.1 is free`);
});

Deno.test("on this machine it finds the library and its device", async () => {
  const { stdout } = await runMain("doctor");
  assertMatch(stdout, /^ok +library +\S.*\n +device (cpu|metal), MLX \d/m);
  for (const name of ["program", "memory", "environment", "cache", "model", "port"]) {
    assertMatch(stdout, new RegExp(`^(ok|note|WRONG) +${name} `, "m"));
  }
});

async function doctorWith(name: string, value: string): Promise<CliResult> {
  const saved = Deno.env.get(name);
  Deno.env.set(name, value);
  try {
    return await runMain("doctor");
  } finally {
    if (saved === undefined) Deno.env.delete(name);
    else Deno.env.set(name, saved);
  }
}

Deno.test("a library that is not there is what is wrong", async () => {
  const { code, stdout } = await doctorWith("ROWLOCK_LIBRARY", "no/such/library.so");
  assertEquals(code, 1);
  assertMatch(stdout, /^WRONG +library +ROWLOCK_LIBRARY is "no\/such\/library\.so", where no file is/m);
});

Deno.test("a variable that serve warns of is wrong, one that it takes is not", async () => {
  const { code, stdout } = await doctorWith("ROWLOCK_THREADS", "many");
  assertEquals(code, 1);
  assertStringIncludes(
    stdout,
    'WRONG  environment  ROWLOCK_THREADS is "many", expected a whole number from 1 to 64; it counts as not set\n',
  );
  assertMatch((await doctorWith("ROWLOCK_THREADS", "2")).stdout, /^ok +environment /m);
});
