import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { UsageError } from "../../src/cli/flags.ts";
import { modelTable } from "../../src/cli/list.ts";
import { pull } from "../../src/cli/pull.ts";
import { remove } from "../../src/cli/remove.ts";
import { FakeHub, withEnvironment, withFolder } from "../hub/fake_hub.ts";
import { HubError } from "../../src/hub/hub_error.ts";
import { runMain } from "./cli_process.ts";

/** Runs `body` with both caches in `folder` and the hub at `endpoint`. */
async function withCaches(endpoint: string, body: (folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const variables = { HF_HOME: folder, HF_HUB_CACHE: join(folder, "hub"), HF_ENDPOINT: endpoint, ROWLOCK_CACHE: join(folder, "own") };
    await withEnvironment(variables, () => body(folder));
  });
}

Deno.test("a model is pulled, listed and removed by the commands as users run them", async () => {
  await using hub = new FakeHub();
  await withCaches(hub.endpoint, async (folder) => {
    const pulled = await runMain("pull", "acme/tiny-model");
    assertEquals([pulled.code, pulled.stderr], [0, ""]);
    assertEquals(pulled.stdout, `${join(folder, "hub", "models--acme--tiny-model", "snapshots", hub.commit)}\n`);
    const listed = await runMain("list");
    assertMatch(listed.stdout, /^MODEL +SIZE +SERVED AS\nacme\/tiny-model +1 MB +llama, safetensors\n$/);
    const asked = await runMain("rm", "acme/tiny-model");
    assertEquals([asked.code, asked.stdout], [2, ""]);
    assertStringIncludes(asked.stderr, "give --yes");
    const removed = await runMain("rm", "--yes", "acme/tiny-model");
    assertEquals([removed.code, removed.stdout], [0, "removed acme/tiny-model, all that was fetched of it (1 MB)\n"]);
    assertEquals((await runMain("list")).stdout, "No models are kept here; rowlock pull org/name brings one\n");
    const unknown = await runMain("rm", "--yes", "acme/tiny-model");
    assertEquals([unknown.code, unknown.stdout], [1, ""]);
  });
});

Deno.test("rm removes only what the person says yes to", async () => {
  await withCaches("http://127.0.0.1:1", async (folder) => {
    await Deno.mkdir(join(folder, "own", "models"), { recursive: true });
    for (const name of ["a", "b"]) await Deno.writeTextFile(join(folder, "own", "models", `${name}.gguf`), "x");
    const questions: string[] = [];
    await remove(["a", "b.gguf"], { yes: false }, (question) => questions.push(question) === 2);
    assertEquals(questions, ["Remove a.gguf (1 MB)?", "Remove b.gguf (1 MB)?"]);
    assertEquals([...Deno.readDirSync(join(folder, "own", "models"))].map(({ name }) => name), ["a.gguf"]);
    await assertRejects(() => remove(["a"], { yes: false }, null), UsageError, "no terminal to ask on");
    // What is not here needs no question.
    await assertRejects(() => remove(["absent"], { yes: false }, null), HubError, '"absent" is in no cache');
  });
});

Deno.test("pull refuses what is no repository before it fetches anything", async () => {
  await using hub = new FakeHub();
  await withCaches(hub.endpoint, async () => {
    await assertRejects(() => pull(["acme/tiny-model", "model.gguf"]), UsageError, '"model.gguf" is no repository');
    assertEquals(hub.paths, []);
  });
});

Deno.test("the list says what a model is served as, or why it is not", () => {
  const models = [{ name: "org/good", path: "good", numBytes: 1.25e9 }, { name: "org/odd", path: "odd", numBytes: 5e6 }, {
    name: "x",
    path: null,
    numBytes: 0,
  }];
  const table = modelTable(
    models,
    (path) => path === "good" ? { isServable: true, text: "llama, GGUF" } : { isServable: false, text: "unsupported" },
  );
  assertEquals(table.split("\n"), [
    "MODEL       SIZE  SERVED AS",
    "org/good  1.3 GB  llama, GGUF",
    "org/odd     5 MB  not: unsupported",
    "x           0 MB  not: it has neither config.json with model*.safetensors nor a .gguf file",
  ]);
});
