import { assertEquals, assertThrows } from "@std/assert";
import { cacheFolder } from "../../src/hub/cache_folder.ts";

Deno.test("the cache is where the most specific variable says, and empty variables count as unset", () => {
  assertEquals(cacheFolder({ ROWLOCK_CACHE: "/a", XDG_CACHE_HOME: "/b", HOME: "/c" }), "/a");
  assertEquals(cacheFolder({ ROWLOCK_CACHE: "", XDG_CACHE_HOME: "/b", HOME: "/c" }), "/b/rowlock");
  assertEquals(cacheFolder({ HOME: "/c" }), "/c/.cache/rowlock");
  assertThrows(() => cacheFolder({}), Error, "none of ROWLOCK_CACHE, XDG_CACHE_HOME and HOME is set");
});
