import { assertEquals, assertThrows } from "@std/assert";
import { parseTestOptions } from "../../scripts/testing/test_options.ts";

Deno.test("without arguments Deno's tests and the native ones run, and a path leaves only Deno's", () => {
  assertEquals(parseTestOptions([]), { runners: ["deno", "native"], isSanitized: false, paths: [] });
  const file = "tests/scripts/test_options_test.ts";
  assertEquals(parseTestOptions([file, "tests/cli"]), { runners: ["deno"], isSanitized: false, paths: [file, "tests/cli"] });
  assertEquals(parseTestOptions(["--only", "native", "--sanitize"]), { runners: ["native"], isSanitized: true, paths: [] });
});

Deno.test("a path that is not there, and one for a runner that takes none, are refused before anything is set up", () => {
  assertThrows(() => parseTestOptions(["tests/nope_test.ts"]), Error, "There is no file or folder tests/nope_test.ts");
  assertThrows(() => parseTestOptions(["--only", "native", "tests/cli"]), Error, "--only native takes no paths; found tests/cli");
  assertThrows(() => parseTestOptions(["--only", "python"]), Error, '--only is "python", expected one of deno, native, compiled');
});
