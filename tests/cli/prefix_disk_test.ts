/** The folder of `--prefix-cache-disk`, before anything is served. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { UsageError } from "../../src/cli/flags.ts";
import { checkPrefixDiskFlags, makePrefixDisk } from "../../src/cli/prefix_disk.ts";
import { runMain, TINY_MODEL } from "./cli_process.ts";
import { withFolder } from "../engine/disk/pages.ts";

const SETTINGS = { prefixCacheDiskMb: 5, prefixCacheMb: 100 };
const isWindows = Deno.build.os === "windows";

Deno.test("no folder is made when none is named, and one that is named needs memory", async () => {
  assertEquals(await makePrefixDisk({ ...SETTINGS, prefixCacheDiskMb: null, prefixCacheDisk: null }), null);
  assertThrows(
    () => checkPrefixDiskFlags({ ...SETTINGS, prefixCacheDisk: null }),
    UsageError,
    "--prefix-cache-disk-mb is 5, and no folder is named; expected --prefix-cache-disk beside it",
  );
  assertThrows(
    () => checkPrefixDiskFlags({ ...SETTINGS, prefixCacheDisk: "somewhere", prefixCacheMb: 0 }),
    UsageError,
    "--prefix-cache-disk needs memory to work with: --prefix-cache-mb is 0, expected 1 or more",
  );
  checkPrefixDiskFlags({ prefixCacheDisk: null, prefixCacheDiskMb: null, prefixCacheMb: 0 });
  checkPrefixDiskFlags({ ...SETTINGS, prefixCacheDisk: "somewhere" });
});

Deno.test("flags about the disk that do not go together are told before anything is looked for", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const taken = `${(listener.addr as Deno.NetAddr).port}`;
  for (const command of [["serve", "--port", taken, "--model", TINY_MODEL], ["run", TINY_MODEL]]) {
    const { code, stdout, stderr } = await runMain(...command, "--prefix-cache-disk-mb", "5");
    assertEquals([code, stdout, stderr.split("\n").length], [2, "", 2], stderr);
    assertMatch(stderr, /^rowlock: --prefix-cache-disk-mb is 5, and no folder is named/);
  }
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

Deno.test({
  name: "a full disk refuses nothing: a folder that is there is used, and one that cannot be made is a warning",
  ignore: isWindows,
  fn: () =>
    withFolder(async (folder) => {
      const settings = { ...SETTINGS, prefixCacheDisk: folder };
      const known = await makePrefixDisk(settings);
      const warnings: string[] = [];
      const [mkdir, open] = [Deno.mkdir, Deno.open];
      const full = Object.assign(new Error("No space left on device (os error 28)"), { code: "ENOSPC" });
      Deno.open = () => Promise.reject(full);
      try {
        assertEquals(await makePrefixDisk(settings, (line) => warnings.push(line)), known);
        assertEquals(warnings, []);
        Deno.mkdir = () => Promise.reject(full);
        assertEquals(await makePrefixDisk(settings, (line) => warnings.push(line)), null);
        Deno.mkdir = () => Promise.reject(Object.assign(new Error("Read-only file system"), { code: "EROFS" }));
        await assertRejects(() => makePrefixDisk(settings), Error, "cannot be used: Read-only file system");
      } finally {
        [Deno.mkdir, Deno.open] = [mkdir, open];
      }
      assertEquals(warnings, [
        `rowlock: --prefix-cache-disk ${folder} cannot be used, prefixes stay in memory alone: No space left on device (os error 28)`,
      ]);
    }),
});
