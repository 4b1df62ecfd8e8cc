import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { type Caches, listCachedModels } from "../../src/hub/cached_models.ts";
import { fetchModel } from "../../src/hub/fetch_model.ts";
import { HubError } from "../../src/hub/hub_error.ts";
import type { HubReference } from "../../src/hub/model_reference.ts";
import { planRemoval } from "../../src/hub/remove_model.ts";
import { FakeHub, fetchOptions, REPOSITORY, someBytes, TINY_FILES, withFolder } from "./fake_hub.ts";

const REFERENCE: HubReference = { type: "hub", repository: REPOSITORY, revision: "main", filePattern: null };
const SETTINGS_BYTES = ["config.json", "generation_config.json", "tokenizer.json"].reduce((sum, name) => sum + TINY_FILES[name]!.length, 0);
const NEWER = "f".repeat(40);

/** Two caches: the hub's with an older and a newer snapshot and two GGUF files, Rowlock's with one file. */
async function withCaches(body: (caches: Required<Caches>, folder: string) => Promise<void>): Promise<void> {
  await using hub = new FakeHub();
  await withFolder(async (folder) => {
    const options = fetchOptions(hub, join(folder, "hub"));
    hub.files.set("tiny-Q4.gguf", someBytes(1000, 5));
    hub.files.set("tiny-Q8.gguf", someBytes(2000, 6));
    await fetchModel({ ...REFERENCE, revision: "v1" }, options);
    hub.commit = NEWER;
    hub.files.set("config.json", new TextEncoder().encode('{"model_type":"gpt9"}'));
    for (const filePattern of [null, "Q4", "Q8"]) await fetchModel({ ...REFERENCE, filePattern }, { ...options, isUpdate: true });
    await Deno.mkdir(join(folder, "own", "models"), { recursive: true });
    await Deno.writeFile(join(folder, "own", "models", "small.gguf"), someBytes(50));
    await body({ settings: options.settings!, cache: join(folder, "own") }, folder);
  });
}

async function names(caches: Caches): Promise<string[]> {
  return (await listCachedModels(caches)).map(({ name }) => name);
}

async function removeModel(name: string, caches: Caches): Promise<number> {
  const removal = await planRemoval(name, caches);
  await removal.run();
  return removal.numBytes;
}

async function numBlobs(folder: string): Promise<number> {
  return (await Array.fromAsync(Deno.readDir(join(folder, "hub", "models--acme--tiny-model", "blobs")))).length;
}

Deno.test("the models of both caches are listed under the names that serve takes", async () => {
  await withCaches(async (caches, folder) => {
    const models = await listCachedModels(caches);
    assertEquals(models.map(({ name, numBytes }) => [name, numBytes]), [
      ["acme/tiny-model", 300_000 + SETTINGS_BYTES - 1],
      ["acme/tiny-model:tiny-Q4.gguf", 1000],
      ["acme/tiny-model:tiny-Q8.gguf", 2000],
      ["acme/tiny-model@v1", 300_000 + SETTINGS_BYTES],
      ["small.gguf", 50],
    ]);
    assertEquals(models[0]!.path, join(folder, "hub", "models--acme--tiny-model", "snapshots", NEWER));
    await Deno.mkdir(join(folder, "hub", "models--acme--empty"));
    await Deno.mkdir(join(folder, "hub", "datasets--acme--data"));
    assertEquals((await listCachedModels(caches))[0], { name: "acme/empty", path: null, numBytes: 0 });
    assertEquals(
      await listCachedModels({ ...caches, settings: { ...caches.settings, cache: join(folder, "none") } }).then((all) => all.length),
      1,
    );
  });
});

Deno.test("a removed revision takes only what no other revision uses", async () => {
  await withCaches(async (caches, folder) => {
    assertEquals(await numBlobs(folder), 7);
    assertEquals(await removeModel("acme/tiny-model@v1", caches), TINY_FILES["config.json"]!.length);
    assertEquals(await numBlobs(folder), 6);
    assertEquals((await names(caches)).includes("acme/tiny-model@v1"), false);
    const weights = join(folder, "hub", "models--acme--tiny-model", "snapshots", NEWER, "model.safetensors");
    assertEquals(await Deno.readFile(weights), TINY_FILES["model.safetensors"]);
    await assertRejects(() => planRemoval("acme/tiny-model@v1", caches), HubError, "acme/tiny-model@v1 is not in");
  });
});

Deno.test("a removed file leaves its neighbours, and a removed repository leaves nothing of it", async () => {
  await withCaches(async (caches) => {
    assertEquals(await removeModel("acme/tiny-model:Q4", caches), 1000);
    assertEquals(await names(caches), ["acme/tiny-model", "acme/tiny-model:tiny-Q8.gguf", "acme/tiny-model@v1", "small.gguf"]);
    await removeModel("acme/tiny-model", caches);
    assertEquals(await names(caches), ["small.gguf"]);
    assertEquals(await removeModel("small", caches), 50);
    assertEquals(await names(caches), []);
  });
});

Deno.test("a model in parts is one model, and goes as one", async () => {
  await using hub = new FakeHub();
  await withFolder(async (folder) => {
    const options = fetchOptions(hub, join(folder, "hub"));
    const caches = { settings: options.settings!, cache: join(folder, "own") };
    const parts = ["big-00001-of-00002.gguf", "big-00002-of-00002.gguf"];
    hub.files = new Map([...parts, "small.gguf"].map((name, i) => [name, someBytes(100 + i, i)]));
    await fetchModel({ ...REFERENCE, filePattern: "big" }, options);
    await fetchModel({ ...REFERENCE, filePattern: "small" }, options);
    const models = await listCachedModels(caches);
    assertEquals(models.map(({ name, numBytes }) => [name, numBytes]), [[`acme/tiny-model:${parts[0]}`, 201], [
      "acme/tiny-model:small.gguf",
      102,
    ]]);
    const removal = await planRemoval(`acme/tiny-model:${parts[1]}`, caches);
    assertEquals([removal.what, removal.numBytes], [`${parts.join(", ")} of acme/tiny-model`, 201]);
    await removal.run();
    assertEquals(await names(caches), ["acme/tiny-model:small.gguf"]);
    assertEquals(await numBlobs(folder), 1);
  });
});

Deno.test("nothing outside the caches can be removed, and content that a link leads to elsewhere stays", async () => {
  await withCaches(async (caches, folder) => {
    const mine = join(folder, "mine.gguf");
    await Deno.writeFile(mine, someBytes(9));
    for (const name of [mine, "../mine", "../../mine.gguf", folder]) {
      await assertRejects(() => planRemoval(name, caches), HubError, "is in no cache");
    }
    await assertRejects(() => planRemoval("acme/other", caches), HubError, "acme/other is not in");
    await assertRejects(() => planRemoval("acme/tiny-model:Q5", caches), HubError, 'no .gguf file that matches "Q5"');
    const link = join(folder, "hub", "models--acme--tiny-model", "snapshots", NEWER, "tiny-Q4.gguf");
    await Deno.remove(link);
    await Deno.symlink(mine, link);
    await removeModel("acme/tiny-model:Q4", caches);
    assertEquals(await Deno.readFile(mine), someBytes(9));
  });
});
