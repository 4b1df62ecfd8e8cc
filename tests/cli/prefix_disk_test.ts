/** The folder of `--prefix-cache-disk`, before anything is served. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { UsageError } from "../../src/cli/flags.ts";
import { makePrefixDisk } from "../../src/cli/prefix_disk.ts";
import { withFolder } from "../engine/disk/pages.ts";

const SETTINGS = { prefixCacheDiskMb: 5, prefixCacheMb: 100 };
const isWindows = Deno.build.os === "windows";

Deno.test("no folder is made when none is named, and one that is named needs memory", async () => {
  assertEquals(await makePrefixDisk({ ...SETTINGS, prefixCacheDisk: null }), null);
  await assertRejects(
    () => makePrefixDisk({ ...SETTINGS, prefixCacheDisk: "somewhere", prefixCacheMb: 0 }),
    UsageError,
    "--prefix-cache-disk needs memory to work with: --prefix-cache-mb is 0, expected 1 or more",
  );
});

Deno.test({
  name: "the folder is made for its user alone, inside of the one that is named, whose rights stay as they are",
  ignore: isWindows,
  fn: () =>
    withFolder(async (folder) => {
      await Deno.chmod(folder, 0o755);
      const disk = await makePrefixDisk({ ...SETTINGS, prefixCacheDisk: `${folder}/new` });
      const inside = `${await Deno.realPath(folder)}/new/rowlock-prefixes`;
      assertEquals(disk, { folder: inside, maxBytes: 5e6 });
      assertEquals([...Deno.readDirSync(inside)], []);
      await makePrefixDisk({ ...SETTINGS, prefixCacheDisk: folder });
      const mode = async (path: string): Promise<number> => ((await Deno.stat(path)).mode ?? 0) & 0o777;
      assertEquals([await mode(folder), await mode(inside), await mode(`${folder}/rowlock-prefixes`)], [0o755, 0o700, 0o700]);
      // A second server finds it.
      assertEquals((await makePrefixDisk({ ...SETTINGS, prefixCacheDisk: `${folder}/new` }))?.folder, inside);
    }),
});

Deno.test({
  name: "a folder that cannot be used is one line that names it",
  ignore: isWindows,
  fn: () =>
    withFolder(async (folder) => {
      await Deno.writeTextFile(`${folder}/file`, "");
      await Deno.mkdir(`${folder}/open`);
      await Deno.chmod(`${folder}/open`, 0o777);
      for (const [name, reason] of [["file", "Not a directory"], ["open", "can be written by other users"]] as const) {
        const error = await assertRejects(() => makePrefixDisk({ ...SETTINGS, prefixCacheDisk: `${folder}/${name}` }), Error, reason);
        assert(
          error.message.startsWith(`--prefix-cache-disk ${folder}/${name} cannot be used: `) && !error.message.includes("\n"),
          error.message,
        );
      }
    }),
});
