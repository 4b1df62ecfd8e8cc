/** What `deno task compile` puts into the program besides the source: the native library, perhaps a model, and facts about the build. */
import { join } from "node:path";
import type { BundledFile } from "../native/bundled_library.ts";

/** The folder of these files, in a checkout and inside the program. */
const FOLDER = join(import.meta.dirname ?? ".", "..", "..", "dist", "bundle");
const FACTS_FILE = "facts.json";

export interface BuildFacts {
  readonly version: string;
  /** Commit that was built, with `+` when the checkout had changes. */
  readonly commit: string;
  /** Such as `x86_64-unknown-linux-gnu`. */
  readonly target: string;
  /** What the library says about itself: `mlx`, `mlxc`, `device`, `isa`, … */
  readonly library: Readonly<Record<string, string>>;
  /** Oldest C library that it runs with; null where that is no question. */
  readonly minGlibc: string | null;
  /** The native library and what lies beside it. */
  readonly libraryFiles: readonly BundledFile[];
  /** The default model, when it is in the program. */
  readonly model: BundledFile | null;
}

export interface Bundle {
  readonly folder: string;
  readonly facts: BuildFacts;
}

/** null in a checkout, whose `dist` says nothing about the source that runs. */
export function readBundle(): Bundle | null {
  if (!Deno.build.standalone) return null;
  return { folder: FOLDER, facts: JSON.parse(Deno.readTextFileSync(join(FOLDER, FACTS_FILE))) };
}

/** Path of the default model inside the program; null when it is not in there. */
export function bundledModel(bundle: Bundle | null = readBundle()): string | null {
  const name = bundle?.facts.model?.name;
  return bundle === null || name === undefined ? null : join(bundle.folder, name);
}
