import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { fetchModel } from "../../src/hub/fetch_model.ts";
import { HubError } from "../../src/hub/hub_error.ts";
import type { HubReference } from "../../src/hub/model_reference.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { COMMIT, FakeHub, fetchOptions, gitHash, REPOSITORY, sha256, someBytes, TINY_FILES, withFolder } from "./fake_hub.ts";

const REFERENCE: HubReference = { type: "hub", repository: REPOSITORY, revision: "main", filePattern: null };
const FOLDER = "models--acme--tiny-model";

Deno.test("a model is fetched with only the files that serving needs, in the layout of Python's cache", async () => {
  await using hub = new FakeHub();
  await withFolder(async (cache) => {
    const path = await fetchModel(REFERENCE, fetchOptions(hub, cache));
    assertEquals(path, join(cache, FOLDER, "snapshots", COMMIT));
    assertEquals(await Deno.readTextFile(join(cache, FOLDER, "refs", "main")), COMMIT);
    const names = [...Deno.readDirSync(path)].map(({ name }) => name).sort();
    assertEquals(names, ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"]);
    const weights = TINY_FILES["model.safetensors"]!;
    assertEquals(await Deno.readLink(join(path, "model.safetensors")), join("..", "..", "blobs", sha256(weights)));
    assertEquals(await Deno.readLink(join(path, "config.json")), join("..", "..", "blobs", gitHash(TINY_FILES["config.json"]!)));
    assertEquals(await Deno.readFile(join(path, "model.safetensors")), weights);
    const blobs = [...Deno.readDirSync(join(cache, FOLDER, "blobs"))].map(({ name }) => name);
    assertEquals(blobs.filter((name) => !/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(name)), []);
  });
});

Deno.test("what the cache has is used without a request, and an update fetches only what has changed", async () => {
  await using hub = new FakeHub();
  await withFolder(async (cache) => {
    const first = await fetchModel(REFERENCE, fetchOptions(hub, cache));
    hub.seen.length = 0;
    assertEquals(await fetchModel(REFERENCE, fetchOptions(hub, cache)), first);
    assertEquals(hub.paths, []);
    hub.commit = "f".repeat(40);
    hub.files.set("config.json", new TextEncoder().encode('{"model_type":"qwen2"}'));
    const second = await fetchModel(REFERENCE, { ...fetchOptions(hub, cache), isUpdate: true });
    assertEquals(second, join(cache, FOLDER, "snapshots", hub.commit));
    assertEquals(hub.paths.slice(1), [`/${REPOSITORY}/resolve/${hub.commit}/config.json`]);
    assertEquals(await Deno.readTextFile(join(second, "config.json")), '{"model_type":"qwen2"}');
    assertEquals(await Deno.readTextFile(join(first, "config.json")), '{"model_type":"llama"}');
  });
});

Deno.test("offline, the cache is all there is, by branch as by commit", async () => {
  await using hub = new FakeHub();
  await withFolder(async (cache) => {
    const options = fetchOptions(hub, cache);
    const offline = { ...options, settings: { ...options.settings!, isOffline: true } };
    await assertRejects(() => fetchModel(REFERENCE, offline), HubError, "HF_HUB_OFFLINE");
    const path = await fetchModel(REFERENCE, options);
    hub.seen.length = 0;
    assertEquals(await fetchModel(REFERENCE, { ...offline, isUpdate: true }), path);
    assertEquals(await fetchModel({ ...REFERENCE, revision: COMMIT }, offline), path);
    await assertRejects(() => fetchModel({ ...REFERENCE, revision: "v2" }, offline), HubError, "acme/tiny-model@v2");
    assertEquals(hub.paths, []);
  });
});

Deno.test("a snapshot without a tokenizer is completed, and is used as it is when the hub cannot be reached", async () => {
  await using hub = new FakeHub();
  await withFolder(async (cache) => {
    const path = await fetchModel(REFERENCE, fetchOptions(hub, cache));
    await Deno.remove(join(path, "tokenizer.json"));
    assertEquals(await fetchModel(REFERENCE, fetchOptions(hub, cache)), path);
    assertEquals(await Deno.readTextFile(join(path, "tokenizer.json")), '{"version":"1.0"}');
    await Deno.remove(join(path, "tokenizer.json"));
    hub.fault = () => new Response(null, { status: 503 });
    const notes: string[] = [];
    const progress: Progress = { advance: () => {}, note: (text) => void notes.push(text) };
    assertEquals(await fetchModel(REFERENCE, { ...fetchOptions(hub, cache), progress }), path);
    assertStringIncludes(notes.join(), "using what is in the cache");
  });
});

Deno.test("a half-fetched model is never taken for a whole one", async () => {
  await using hub = new FakeHub();
  await withFolder(async (cache) => {
    hub.files.delete("model.safetensors");
    hub.files.set("model-00001-of-00002.safetensors", someBytes(500, 3));
    hub.files.set("model-00002-of-00002.safetensors", someBytes(600, 4));
    const weightMap = { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors" };
    hub.files.set("model.safetensors.index.json", new TextEncoder().encode(JSON.stringify({ weight_map: weightMap })));
    const path = await fetchModel(REFERENCE, fetchOptions(hub, cache));
    assertEquals([...Deno.readDirSync(path)].length, 6);
    for (const missing of ["model-00002-of-00002.safetensors", "model.safetensors.index.json"]) {
      await Deno.remove(join(path, "model-00002-of-00002.safetensors"));
      if (missing.endsWith("json")) await Deno.remove(join(path, missing));
      hub.seen.length = 0;
      assertEquals(await fetchModel(REFERENCE, fetchOptions(hub, cache)), path);
      assert(hub.paths.length > 0);
      assertEquals(await Deno.readFile(join(path, "model-00002-of-00002.safetensors")), someBytes(600, 4));
    }
  });
});

Deno.test("a pattern chooses one GGUF file, and an unclear choice is refused with the names", async () => {
  await using hub = new FakeHub();
  hub.files = new Map(
    ["tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf", "q/tiny-F16.gguf", "mmproj-F16.gguf"].map((name, i) => [name, someBytes(99, i)]),
  );
  await withFolder(async (cache) => {
    const fetchPattern = (filePattern: string | null): Promise<string> =>
      fetchModel({ ...REFERENCE, filePattern }, fetchOptions(hub, cache));
    const error = await assertRejects(() => fetchPattern(null), HubError, "has 3 .gguf files; choose one with acme/tiny-model:PATTERN");
    assertStringIncludes(error.message, "q/tiny-F16.gguf, tiny-Q4_K_M.gguf, tiny-Q8_0.gguf");
    await assertRejects(() => fetchPattern("Q6_K"), HubError, 'no .gguf file that matches "Q6_K"');
    await assertRejects(() => fetchPattern("tiny"), HubError, 'has 3 .gguf files that match "tiny"');
    for (const [pattern, file] of [["q8_0", "tiny-Q8_0.gguf"], ["*Q4*.gguf", "tiny-Q4_K_M.gguf"], ["f16", "q/tiny-F16.gguf"]] as const) {
      assertEquals(await fetchPattern(pattern), join(cache, FOLDER, "snapshots", COMMIT, file));
    }
    hub.seen.length = 0;
    assertEquals(await fetchPattern("Q8_0"), join(cache, FOLDER, "snapshots", COMMIT, "tiny-Q8_0.gguf"));
    assertEquals(hub.paths, []);
    assertEquals(
      await Deno.readLink(join(cache, FOLDER, "snapshots", COMMIT, "q/tiny-F16.gguf")),
      join("..", "..", "..", "blobs", sha256(someBytes(99, 2))),
    );
  });
});

Deno.test("the parts of a GGUF model are chosen and fetched together, whichever is named", async () => {
  await using hub = new FakeHub();
  const parts = [1, 2, 3].map((i) => `q/big-Q4_K_M-0000${i}-of-00003.gguf`);
  hub.files = new Map([...parts, "q/big-Q8_0-00001-of-00002.gguf"].map((name, i) => [name, someBytes(99, i)]));
  await withFolder(async (cache) => {
    const snapshot = join(cache, FOLDER, "snapshots", COMMIT);
    const fetchPattern = (filePattern: string | null): Promise<string> =>
      fetchModel({ ...REFERENCE, filePattern }, fetchOptions(hub, cache));
    const error = await assertRejects(() => fetchPattern(null), HubError, "has 2 .gguf files; choose one");
    assertStringIncludes(error.message, parts[0]!);
    assertEquals(error.message.includes(parts[1]!), false);
    assertEquals(await fetchPattern("Q4_K_M"), join(snapshot, parts[0]!));
    for (const [i, part] of parts.entries()) assertEquals(await Deno.readFile(join(snapshot, part)), someBytes(99, i));
    hub.seen.length = 0;
    assertEquals(await fetchPattern(parts[2]!), join(snapshot, parts[0]!));
    assertEquals(hub.paths, []);
    // What lacks a part is not whole: it is fetched again.
    await Deno.remove(join(snapshot, parts[1]!));
    assertEquals(await fetchPattern("*Q4*"), join(snapshot, parts[0]!));
    assertEquals(await Deno.readFile(join(snapshot, parts[1]!)), someBytes(99, 1));
    await assertRejects(() => fetchPattern("Q8_0"), HubError, "has no q/big-Q8_0-00002-of-00002.gguf, one of the 2 parts of the model");
  });
});

Deno.test("a disk that is too full is found before the first byte of the weights", async () => {
  await using hub = new FakeHub();
  await withFolder(async (cache) => {
    const options = { ...fetchOptions(hub, cache), freeBytes: () => Promise.resolve(256 * 2 ** 20 + 200_000) };
    await assertRejects(() => fetchModel(REFERENCE, options), HubError, "0.27 GB are free");
    assertEquals(hub.paths.some((path) => path.endsWith("model.safetensors")), false);
    // What an earlier attempt has brought need not be brought again.
    await Deno.writeFile(join(cache, FOLDER, "blobs", `${sha256(someBytes(300_000))}.incomplete`), someBytes(300_000).subarray(0, 150_000));
    await fetchModel(REFERENCE, options);
    assertEquals(hub.seen.at(-1)?.range, "bytes=150000-");
  });
});

Deno.test("paths that lead out of the cache are refused before anything is written", async () => {
  await using hub = new FakeHub();
  for (const path of ["../../evil", "/etc/evil", "a/../../evil", "a\\b", "", "a//b", "c:x", "a\nb"]) {
    hub.files = new Map([...Object.entries(TINY_FILES), [path, someBytes(3)]]);
    await withFolder(async (cache) => {
      await assertRejects(() => fetchModel(REFERENCE, fetchOptions(hub, cache)), HubError, "no path inside a repository");
      assertEquals([...Deno.readDirSync(cache)], []);
    });
  }
  hub.files = new Map(Object.entries(TINY_FILES));
  for (const sha of ["../../../evil", "main", 7]) {
    hub.fault = () => Response.json({ sha, siblings: [] });
    await withFolder(async (cache) => {
      await assertRejects(() => fetchModel(REFERENCE, fetchOptions(hub, cache)), HubError, "no commit");
    });
  }
  hub.fault = () => null;
  hub.lies.set("model.safetensors", { lfs: { sha256: "../x", size: 5 } });
  await withFolder(async (cache) => {
    await assertRejects(() => fetchModel(REFERENCE, fetchOptions(hub, cache)), HubError, "tells no size and hash");
  });
  hub.lies.clear();
  hub.files.delete("model.safetensors");
  hub.files.set("model.safetensors.index.json", new TextEncoder().encode('{"weight_map":{"a":"../../x.safetensors"}}'));
  await withFolder(async (cache) => {
    await assertRejects(() => fetchModel(REFERENCE, fetchOptions(hub, cache)), HubError, '"../../x.safetensors"');
  });
});
