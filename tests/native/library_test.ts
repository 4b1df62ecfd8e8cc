import { assert, assertEquals, assertThrows } from "@std/assert";
import { findLibrary, libraryCandidates, LibraryError, libraryFileName, NativeLibrary } from "../../src/native/library.ts";
import { NativeError } from "../../src/native/native_error.ts";
import { ABI_VERSION } from "../../src/native/symbols.ts";

function candidates(env: Record<string, string>, folders: string[] = [], os = "linux"): string[] {
  return libraryCandidates({ env: (name) => env[name], os, foldersNewestFirst: () => folders });
}

Deno.test("a library named by ROWLOCK_LIBRARY is the only candidate", () => {
  assertEquals(candidates({ ROWLOCK_LIBRARY: "/my/lib.so", HOME: "/home/me" }, ["shim-a"]), ["/my/lib.so"]);
});

Deno.test("builds in the cache are tried newest first, and other folders are not", () => {
  assertEquals(candidates({ HOME: "/home/me" }, ["shim-b", "mlx-x", "shim-a"]), [
    "/home/me/.cache/rowlock/native/shim-b/librowlock.so",
    "/home/me/.cache/rowlock/native/shim-a/librowlock.so",
  ]);
});

Deno.test("ROWLOCK_CACHE comes before XDG_CACHE_HOME, which comes before the home folder", () => {
  const env = { ROWLOCK_CACHE: "/own", XDG_CACHE_HOME: "/xdg", HOME: "/home/me" };
  assertEquals(candidates(env, ["shim-a"]), ["/own/native/shim-a/librowlock.so"]);
  assertEquals(candidates({ ...env, ROWLOCK_CACHE: "" }, ["shim-a"], "darwin"), ["/xdg/rowlock/native/shim-a/librowlock.dylib"]);
  assertEquals(candidates({}, ["shim-a"]), []);
});

Deno.test("a missing library is an error that says what to run", () => {
  const error = assertThrows(() => findLibrary("/nowhere/librowlock.so"), LibraryError);
  assert(error.message.includes("/nowhere/librowlock.so") && error.message.includes("deno task setup"), error.message);
});

Deno.test("a file that is no library is an error that names it", () => {
  const path = Deno.makeTempFileSync({ suffix: libraryFileName() });
  Deno.writeTextFileSync(path, "not a library");
  try {
    assertThrows(() => NativeLibrary.open(path), LibraryError, `Cannot open the native library "${path}"`);
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("the library that is found opens, and tells its build and its memory", () => {
  const library = NativeLibrary.open(findLibrary());
  try {
    const info = library.buildInfo();
    assertEquals(info["abi"], String(ABI_VERSION));
    assert(info["mlx"] && info["device"], JSON.stringify(info));
    const memory = library.memory();
    assert(memory.peakBytes >= memory.activeBytes && memory.activeBytes >= 0, JSON.stringify(memory));
    for (const isOn of [true, false]) library.setBatchInvariant(isOn);
    library.limitBufferCache(2 ** 20);
    assertEquals(library.memory().cacheLimitBytes, 2 ** 20);
  } finally {
    library.close();
  }
});

Deno.test("a status other than RL_OK becomes an error with its kind, its call and the library's text", () => {
  const library = NativeLibrary.open(findLibrary());
  try {
    const status = library.symbols.rl_output_read(null, null, 0n);
    const error = assertThrows(() => library.check("rl_output_read", status), NativeError);
    assertEquals([error.kind, error.code, error.call], ["argument", -1, "rl_output_read"]);
    assert(error.message.startsWith("rl_output_read failed (argument): ") && !error.message.endsWith("no text"), error.message);
    library.check("rl_output_read", 0);
  } finally {
    library.close();
  }
});
