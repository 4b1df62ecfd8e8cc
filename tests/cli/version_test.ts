import { assertEquals } from "@std/assert";
import type { BuildFacts } from "../../src/cli/bundle.ts";
import { VERSION, versionText } from "../../src/cli/version.ts";

const FACTS: BuildFacts = {
  version: VERSION,
  commit: "0123456789ab+",
  target: "x86_64-unknown-linux-gnu",
  library: { abi: "2", mlx: "0.32.2", mlxc: "0.6.0", device: "cpu", isa: "", compiler: "12.2.0" },
  minGlibc: "2.35",
  libraryFiles: [],
  model: null,
};

Deno.test("the version tells what the program was built from, and leaves out what is not known", () => {
  assertEquals(versionText(FACTS).split("\n"), [
    `rowlock ${VERSION}`,
    "commit    0123456789ab+",
    "target    x86_64-unknown-linux-gnu, glibc 2.35 or later",
    "mlx       0.32.2",
    "mlx-c     0.6.0",
    "device    cpu",
    "compiler  12.2.0",
    `deno      ${Deno.version.deno}`,
  ]);
});

Deno.test("a checkout knows its version alone", () => {
  assertEquals(versionText(null).split("\n")[0], `rowlock ${VERSION}`);
  assertEquals(versionText(null).includes("mlx"), false);
});
