import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DEFAULT_MODEL } from "../../src/hub/default_model.ts";
import { sizeText } from "../../src/cli/size_text.ts";

Deno.test("sizes are rounded to megabytes, from 1 GB on to a tenth, and what is there is never nothing", () => {
  assertEquals(sizeText(DEFAULT_MODEL.memberBytes), "98 MB");
  assertEquals([0, 1, 1.4e6, 1.6e6, 999.4e6, 999.6e6, 1.26e9].map(sizeText), [
    "0 MB",
    "1 MB",
    "1 MB",
    "2 MB",
    "999 MB",
    "1.0 GB",
    "1.3 GB",
  ]);
  fc.assert(fc.property(fc.integer({ min: 1, max: 1e13 }), (numBytes) => {
    const [number, unit] = sizeText(numBytes).split(" ") as [string, string];
    const step = unit === "MB" ? 1e6 : 1e8;
    const told = Number(number) * (unit === "MB" ? 1e6 : 1e9);
    assert(number.length <= 7 && (Math.abs(told - numBytes) <= step * 0.5001 || told === 1e6), `${numBytes}: ${number} ${unit}`);
  }));
});

Deno.test("no other file of the command line writes sizes by itself", async () => {
  const own: string[] = [];
  const look = async (folder: string): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (isDirectory) await look(`${folder}/${name}`);
      else if (/[)}] [MG]B\b.*`/.test((await Deno.readTextFile(`${folder}/${name}`)).replace(/prefixCacheMb\} MB/, ""))) own.push(name);
    }
  };
  await look(new URL("../../src/cli", import.meta.url).pathname);
  // Progress tells tenths of a megabyte, so that it can be seen to move.
  assertEquals(own.toSorted(), ["size_text.ts", "terminal_progress.ts"]);
});
