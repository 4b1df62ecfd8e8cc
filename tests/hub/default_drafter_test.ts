import { join } from "node:path";
import { assertEquals } from "@std/assert";
import { ensureDefaultDrafter } from "../../src/hub/default_drafter.ts";

async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function writeHead(folder: string, config: string, weights: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(join(folder, "config.json"), config);
  await Deno.writeTextFile(join(folder, "model.safetensors"), weights);
}

async function contents(folder: string): Promise<Record<string, string>> {
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  return Object.fromEntries(await Promise.all(names.sort().map(async (name) => [name, await Deno.readTextFile(join(folder, name))])));
}

Deno.test("the head comes beside the model, an older one makes room for it, and the same one stays as it is", () =>
  withFolder(async (folder) => {
    const [source, place] = [join(folder, "source"), join(folder, "models", "m.drafter")];
    await writeHead(source, "{}", "first");
    await ensureDefaultDrafter(source, place);
    assertEquals(await contents(place), { "config.json": "{}", "model.safetensors": "first" });
    await writeHead(source, "{}", "other");
    await Deno.writeTextFile(join(place, "left-over"), "");
    await ensureDefaultDrafter(source, place);
    assertEquals(await contents(place), { "config.json": "{}", "model.safetensors": "other" });
    await Deno.writeTextFile(join(place, "a note"), "");
    await ensureDefaultDrafter(source, place);
    assertEquals(Object.keys(await contents(place)), ["a note", "config.json", "model.safetensors"]);
  }));

Deno.test("a program without a head leaves what is there, and makes nothing where nothing is", () =>
  withFolder(async (folder) => {
    const place = join(folder, "m.drafter");
    await ensureDefaultDrafter(join(folder, "missing"), place);
    await ensureDefaultDrafter(null, place);
    assertEquals(await Array.fromAsync(Deno.readDir(folder)), []);
    await writeHead(place, "{}", "mine");
    await ensureDefaultDrafter(join(folder, "missing"), place);
    assertEquals((await contents(place))["model.safetensors"], "mine");
  }));
