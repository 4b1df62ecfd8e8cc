/** The disk behind its worker: messages, and what goes wrong with files. */
import { assert, assertEquals } from "@std/assert";
import type { PageImage } from "../../../src/engine/backend.ts";
import { DiskClient } from "../../../src/engine/disk/disk_client.ts";
import type { DiskOptions, FromDisk } from "../../../src/engine/disk/disk_messages.ts";
import { DiskServer } from "../../../src/engine/disk/disk_server.ts";
import { modelIdentity } from "../../../src/engine/disk/model_identity.ts";
import { childKey, rootKey } from "../../../src/engine/disk/page_key.ts";
import { digest, files, image, spelled, withFolder } from "./pages.ts";

async function optionsFor(folder: string, maxBytes = 1e6): Promise<DiskOptions> {
  const [libraryPath, file] = [`${folder}/library`, `${folder}/weights`];
  await Deno.writeTextFile(libraryPath, "a library");
  await Deno.writeTextFile(file, "weights");
  const tensors = [{ name: "w", type: "F32", file, offset: 0, byteLength: 4, shape: [1] }];
  return {
    folder: `${folder}/pages`,
    maxBytes,
    identity: { libraryPath, build: { kernels: "avx2" }, model: { config: { layers: 1 }, tensors } },
  };
}

function read(client: DiskClient, key: string): Promise<PageImage | null> {
  return new Promise((resolve) => client.read(key, resolve));
}

async function write(client: DiskClient, key: string, page: PageImage): Promise<void> {
  const written = new Promise<void>((resolve) => client.onAnswer = resolve);
  client.write(key, page);
  await written;
}

Deno.test("pages go through the worker and back, also to the next one, and figures tell it", () =>
  withFolder(async (folder) => {
    const options = await optionsFor(folder);
    const first = new DiskClient(options);
    assertEquals(await read(first, digest(1)), null);
    assert(first.canWrite);
    await write(first, digest(1), image(500));
    await write(first, digest(1), image(500));
    assertEquals(first.figures(), { readBytes: 0, writtenBytes: 660, numDropped: 0, numDamaged: 0, heldBytes: 660 });
    first.close();
    const second = new DiskClient(options);
    assertEquals(spelled((await read(second, digest(1)))!), spelled(image(500)));
    assertEquals(second.figures().readBytes, 500);
    const [path = ""] = (await files(options.folder)).keys();
    await Deno.truncate(path, 300);
    assertEquals(await read(second, digest(1)), null);
    assertEquals(second.figures().numDamaged, 1);
    second.close();
  }));

Deno.test("pages on their way are few, and a closed disk takes none and still answers", () =>
  withFolder(async (folder) => {
    const client = new DiskClient(await optionsFor(folder));
    for (const seed of [1, 2]) client.write(digest(seed), image(100));
    assertEquals([client.canWrite, client.numWriting], [false, 2]);
    client.close();
    assertEquals([client.canWrite, await read(client, digest(1))], [false, null]);
  }));

interface Served {
  readonly server: DiskServer;
  readonly answers: FromDisk[];
  readonly warnings: string[];
  /** What is to be done later, and when. */
  readonly later: [act: () => void, delayMs: number][];
  nowMs: number;
}

function serve(): Served {
  const served: Served = {
    server: new DiskServer(
      {
        post: (message) => served.answers.push(message),
        warn: (text) => served.warnings.push(text),
        later: (...what) => served.later.push(what),
      },
      () => served.nowMs,
    ),
    answers: [],
    warnings: [],
    later: [],
    nowMs: 0,
  };
  return served;
}

Deno.test("a folder that cannot be used means no pages, one warning, and another try after a while", () =>
  withFolder(async (folder) => {
    const options = await optionsFor(folder);
    await Deno.writeTextFile(options.folder, "no folder");
    const served = serve();
    const { server, answers, warnings } = served;
    await server.handle({ type: "open", options });
    for (const seed of [1, 2]) await server.handle({ type: "write", key: digest(seed), image: image(100) });
    await server.handle({ type: "read", id: 5, key: digest(1) });
    await server.handle({ type: "touch", keys: [digest(1)] });
    const told = (): unknown[] => answers.slice(1).map((answer) => answer.type === "page" ? [answer.id, answer.image] : answer);
    const writtenBytes = (): unknown[] => answers.flatMap((answer) => answer.type === "written" ? [answer.numBytes] : []);
    assertEquals([answers[0]?.type, told()[2], writtenBytes()], ["opened", [5, null], [null, null]]);
    assertEquals(warnings.length, 1);
    assert(
      warnings[0]?.startsWith("No pages can be written to the prefix cache on the disk, those that are there are used: "),
      warnings[0],
    );
    await Deno.remove(options.folder);
    await server.handle({ type: "write", key: digest(1), image: image(100) });
    served.nowMs += 30_001;
    await server.handle({ type: "write", key: digest(1), image: image(100) });
    assertEquals(writtenBytes().slice(2), [null, 260]);
    // It has worked: the next fault is news.
    await Deno.remove(options.folder, { recursive: true });
    await Deno.writeTextFile(options.folder, "no folder");
    await server.handle({ type: "write", key: digest(2), image: image(100) });
    assertEquals([writtenBytes().at(-1), warnings.length], [null, 2]);
  }));

Deno.test("without the files of the model nothing is read or written, and it is said", () =>
  withFolder(async (folder) => {
    const options = await optionsFor(folder);
    await Deno.remove(`${folder}/weights`);
    const { server, answers, warnings } = serve();
    await server.handle({ type: "open", options });
    await server.handle({ type: "write", key: digest(1), image: image(100) });
    await server.handle({ type: "read", id: 1, key: digest(1) });
    assertEquals([answers.length, warnings.length, (await files(folder)).size], [3, 1, 1]);
    assert(warnings[0]?.startsWith("The prefix cache on the disk does not work, prefixes stay in memory alone: "), warnings[0]);
  }));

Deno.test("the size of a folder that others use, too, is counted anew every 30 s, and told when it has changed", () =>
  withFolder(async (folder) => {
    const options = await optionsFor(folder);
    const { server, answers, later } = serve();
    await server.handle({ type: "open", options });
    const count = async (): Promise<FromDisk[]> => {
      const [[act, delayMs] = [], ...more] = later.splice(0);
      assertEquals([delayMs, more.length], [30_000, 0]);
      const numBefore = answers.length;
      act?.();
      // It takes its turn among the changes.
      await server.handle({ type: "touch", keys: [] });
      return answers.slice(numBefore);
    };
    assertEquals(await count(), []);
    const others = new DiskServer({ post: () => {}, warn: () => {}, later: () => {} });
    await others.handle({ type: "open", options });
    await others.handle({ type: "write", key: digest(1), image: image(500) });
    assertEquals(await count(), [{ type: "counted", state: { numDamaged: 0, heldBytes: 660 } }]);
    assertEquals(await count(), []);
    await others.handle({ type: "remove", key: digest(1) });
    assertEquals(await count(), [{ type: "counted", state: { numDamaged: 0, heldBytes: 0 } }]);
  }));

Deno.test("one odd entry is no page and stops nothing: it is removed where it can be, and other pages are written", () =>
  withFolder(async (folder) => {
    const options = await optionsFor(folder);
    const { server, answers, warnings } = serve();
    await server.handle({ type: "open", options });
    await server.handle({ type: "write", key: digest(1), image: image(100) });
    const [path = ""] = (await files(options.folder)).keys();
    const inside = path.slice(0, path.lastIndexOf("/"));
    const place = (seed: number): string => `${inside}/${digest(seed)}.page`;
    await Deno.mkdir(place(2));
    await Deno.mkdir(`${place(3)}/full`, { recursive: true });
    await Deno.symlink(place(4), place(4));
    await Deno.writeTextFile(`${options.folder}/${digest(9)}`, "a model's folder is a file");
    for (const seed of [2, 3, 4]) {
      await server.handle({ type: "read", id: seed, key: digest(seed) });
      await server.handle({ type: "remove", key: digest(seed) });
    }
    for (const seed of [3, 2, 4, 5]) await server.handle({ type: "write", key: digest(seed), image: image(100) });
    const writtenBytes = answers.flatMap((answer) => answer.type === "written" ? [answer.numBytes] : []);
    assertEquals([writtenBytes, warnings], [[260, null, 260, 260, 260], []]);
    assertEquals(answers.flatMap((answer) => answer.type === "page" ? [answer.image] : []), [null, null, null]);
    assert((await Deno.lstat(`${place(3)}/full`)).isDirectory);
    // Nor does it when all are counted because room is short.
    const small = serve();
    await small.server.handle({ type: "open", options: { ...options, maxBytes: 700 } });
    await small.server.handle({ type: "write", key: digest(6), image: image(100) });
    assertEquals([small.answers.at(-1)?.type === "written", small.warnings], [true, []]);
    assert((await Deno.lstat(place(6))).isFile);
  }));

Deno.test("a disk that is full when the server starts is told once, and the pages that are there are read", () =>
  withFolder(async (folder) => {
    const options = await optionsFor(folder);
    const first = serve();
    await first.server.handle({ type: "open", options });
    await first.server.handle({ type: "write", key: digest(1), image: image(100) });
    const write = Deno.writeTextFile;
    const { server, answers, warnings } = serve();
    Deno.writeTextFile = () => Promise.reject(new Error("No space left on device (os error 28)"));
    try {
      await server.handle({ type: "open", options });
    } finally {
      Deno.writeTextFile = write;
    }
    await server.handle({ type: "write", key: digest(2), image: image(100) });
    await server.handle({ type: "read", id: 1, key: digest(1) });
    const [page] = answers.flatMap((answer) => answer.type === "page" ? [answer.image] : []);
    assertEquals(spelled(page!), spelled(image(100)));
    assertEquals(warnings, [
      "No pages can be written to the prefix cache on the disk, those that are there are used: No space left on device (os error 28)",
    ]);
  }));

Deno.test("pages are of one library, model, drafter and way to compute: whatever of them differs gives another identity", () =>
  withFolder(async (folder) => {
    const { identity } = await optionsFor(folder);
    const { model } = identity;
    const [tensor] = model.tensors;
    const drafter = { kind: "mtp", spec: model, capture: { kind: "final" }, numDraftTokens: 3, maskTokenId: null } as const;
    const different = [
      { build: { kernels: "mlx" } },
      { build: { kernels: "avx2", mlx: "1" } },
      { isBatchInvariant: true },
      { model: { ...model, config: { layers: 2 } } },
      { model: { ...model, tensors: [{ ...tensor!, offset: 1 }] } },
      { speculation: { drafter } },
      { speculation: { drafter: { ...drafter, kind: "eagle3" } as const } },
    ];
    const own = await modelIdentity(identity);
    const found = [own, ...await Promise.all(different.map((parts) => modelIdentity({ ...identity, ...parts })))];
    assertEquals(await modelIdentity({ ...identity, isBatchInvariant: false, speculation: { maxDrafts: 3 } }), own);
    await Deno.writeTextFile(`${folder}/library`, "B library");
    found.push(await modelIdentity(identity));
    await Deno.writeTextFile(`${folder}/library`, "a library");
    assertEquals(await modelIdentity(identity), own);
    await new Promise((resolve) => setTimeout(resolve, 5));
    await Deno.writeTextFile(`${folder}/weights`, "Weights");
    found.push(await modelIdentity(identity));
    const before = await Deno.stat(`${folder}/weights`);
    // Of the time of the last change Deno tells whole seconds.
    await new Promise((resolve) => setTimeout(resolve, 1050));
    await Deno.writeTextFile(`${folder}/weights`, "wEights");
    await Deno.utime(`${folder}/weights`, before.atime!, before.mtime!);
    found.push(await modelIdentity(identity));
    assertEquals(new Set(found).size, found.length);
    assert(found.every((text) => /^[0-9a-f]{64}$/.test(text)));
  }));

Deno.test("keys stand for the salt, every token before and in the page, and where pages begin", () => {
  const spell = (...codes: number[]): string => String.fromCharCode(...codes);
  const roots = [rootKey("", 64), rootKey("a", 64), rootKey("", 32)];
  // Halves of surrogate pairs, too: no encoding of texts tells them apart.
  const pages = [spell(1, 0), spell(0, 1), spell(0xd800, 0), spell(0xd801, 0), spell(0xdc00, 0), spell(1, 0, 0, 0)];
  const keys = [...roots, ...roots.flatMap((root) => pages.map((page) => childKey(root, page)))];
  keys.push(childKey(childKey(roots[0]!, pages[0]!), pages[1]!), childKey(childKey(roots[0]!, pages[1]!), pages[0]!));
  assertEquals(new Set(keys).size, keys.length);
  assertEquals(childKey(roots[0]!, pages[0]!), childKey(roots[0]!, pages[0]!));
});
