/** The compiled program as a file, and what it leaves on the machine. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { libraryFileName } from "../../src/native/library.ts";
import { VERSION } from "../../src/cli/version.ts";
import { TINY_MODEL } from "../cli/cli_process.ts";
import { compiledPath, CompiledProgram } from "./compiled_program.ts";

const MAX_BYTES = 150e6;

async function entries(folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(folder)) names.push(entry.name);
  return names;
}

Deno.test("the program without the model has at most 150 MB", async () => {
  const { size } = await Deno.stat(compiledPath("ROWLOCK_COMPILED"));
  console.log(`${(size / 1e6).toFixed(1)} MB`);
  assert(size <= MAX_BYTES, `${size} bytes`);
});

Deno.test("the version says what was built, and writes nothing", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED"));
  const { code, stdout, stderr } = await program.run(["--version"]);
  assertEquals([code, stderr], [0, ""]);
  assertEquals(stdout.split("\n")[0], `rowlock ${VERSION}`);
  for (const name of ["commit", "target", "mlx", "mlx-c", "device", "deno"]) assertMatch(stdout, new RegExp(`^${name} +\\S`, "m"));
  assertEquals(await entries(program.home), []);
});

Deno.test("the library is unpacked for its user alone, reused, and put right when it was changed", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED"));
  const first = await program.run(["doctor"]);
  assertEquals([first.code, first.stderr], [0, ""], first.stdout);
  const folder = await program.libraryFolder();
  const library = join(folder, libraryFileName());
  const [before, folderInfo] = [await Deno.stat(library), await Deno.stat(folder)];
  assertEquals([before.mode! & 0o777, folderInfo.mode! & 0o777], [0o400, 0o700]);
  assertEquals((await program.run(["doctor"])).code, 0);
  assertEquals((await Deno.stat(library)).ino, before.ino, "the second start has to use the same file");
  const content = await Deno.readFile(library);
  const changed = content.slice();
  changed[changed.length >> 1]! ^= 1;
  await Deno.chmod(library, 0o600);
  await Deno.writeFile(library, changed);
  assertEquals((await program.run(["doctor"])).code, 0);
  assertEquals(await Deno.readFile(library), content);
});

Deno.test("a cache in a folder that others can write is refused", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED"));
  const shared = join(program.folder, "shared");
  await Deno.mkdir(shared);
  await Deno.chmod(shared, 0o777);
  const { code, stdout } = await program.run(["doctor"], { ROWLOCK_CACHE: join(shared, "rowlock") });
  assertEquals(code, 1);
  assertStringIncludes(stdout, `${shared} can be written by other users (mode 777)`);
});

Deno.test("without a model, a network and Python it says what to do", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED"));
  const { code, stderr } = await program.run(["--port", "0"], { PATH: program.folder });
  assertEquals(code, 1);
  assertMatch(stderr, /\nrowlock: [^\n]*Python[^\n]*--model[^\n]*\n$/);
});

Deno.test("help, completions and mistakes need nothing but the file", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED"));
  assertStringIncludes((await program.run(["--help"])).stdout, "Usage: rowlock");
  assertStringIncludes((await program.run(["completions", "bash"])).stdout, "complete -o default -F _rowlock rowlock");
  assertEquals((await program.run(["dance"])).code, 2);
  assertEquals(await entries(program.home), []);
});

Deno.test("the program starts itself to be supervised and to be measured", async () => {
  await using program = await CompiledProgram.alone(compiledPath("ROWLOCK_COMPILED_WITH_MODEL"));
  await (async () => {
    await using server = await program.serve("--supervise", "--model", TINY_MODEL);
    const body = JSON.stringify({ prompt: [1, 2, 3], max_tokens: 4, ignore_eos: true, return_token_ids: true });
    const headers = { "content-type": "application/json" };
    const answer = await (await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body })).json();
    assertEquals(answer.choices[0].token_ids.length, 4);
  })();
  const { code, stdout, stderr } = await program.run(["bench", "--rows", "2", "--tokens", "4", "--repeats", "1"]);
  assertEquals(code, 0, stderr);
  assertMatch(stdout, /^\| rowlock \| 2 \|( \d+(\.\d)? \|){6}$/m);
});
