import { assert, assertThrows } from "@std/assert";
import { checkNeeded, checkSymbols } from "../../scripts/compile/bundle_library.ts";
import { VARIABLES } from "../../src/hub/environment.ts";
import { SYMBOLS } from "../../src/native/symbols.ts";

Deno.test("a library that needs more than the system's own is refused by name", () => {
  checkNeeded(["libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"], "linux");
  checkNeeded(["/usr/lib/libSystem.B.dylib", "/System/Library/Frameworks/Metal.framework/Versions/A/Metal"], "darwin");
  assertThrows(() => checkNeeded(["libc.so.6", "libstdc++.so.6"], "linux"), Error, "it needs libstdc++.so.6");
  assertThrows(() => checkNeeded(["libgfortran.so.5"], "linux"), Error, "libgfortran.so.5");
  assertThrows(() => checkNeeded(["/opt/homebrew/lib/libmlxc.dylib"], "darwin"), Error, "libmlxc.dylib");
});

Deno.test("a library shows all of Rowlock's symbols and no others", () => {
  const all = Object.keys(SYMBOLS);
  checkSymbols(all);
  assertThrows(() => checkSymbols(all.slice(1)), Error, `does not export ${all[0]}`);
  assertThrows(() => checkSymbols([...all, "cblas_sgemm"]), Error, "such as cblas_sgemm");
});

/** Sources below `folder`. */
function* sources(folder: URL): Generator<URL> {
  for (const entry of Deno.readDirSync(folder)) {
    if (entry.isDirectory) yield* sources(new URL(`${entry.name}/`, folder));
    else if (entry.name.endsWith(".ts")) yield new URL(entry.name, folder);
  }
}

Deno.test("the compiled program may read every variable that its source names, and the source never reads all of them", () => {
  const allowed: readonly string[] = VARIABLES;
  let numFound = 0;
  for (const path of sources(new URL("../../src/", import.meta.url))) {
    const text = Deno.readTextFileSync(path);
    assert(!/Deno\.env\.toObject|process\.env/.test(text), `${path.pathname} reads the whole environment`);
    for (const [, name = ""] of text.matchAll(/\benv(?:ironment)?(?:\.get)?[(\[]"([A-Z][A-Z_]+)"/g)) {
      numFound++;
      assert(allowed.includes(name), `${path.pathname} reads ${name}, which src/hub/environment.ts does not name`);
    }
  }
  assert(numFound > 5, `${numFound} reads found`);
});
