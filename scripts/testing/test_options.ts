/** What the arguments of `deno task test` ask for. */
import { parseArgs } from "node:util";

const RUNNERS = ["deno", "native", "compiled"] as const;
type Runner = (typeof RUNNERS)[number];
/** The compiled program's tests take minutes of compiling: only when they are named. */
const DEFAULT_RUNNERS: readonly Runner[] = ["deno", "native"];

export interface TestOptions {
  readonly runners: readonly Runner[];
  /** The native tests under AddressSanitizer and UBSan. */
  readonly isSanitized: boolean;
  /** Files and folders of Deno's tests; none for all. */
  readonly paths: readonly string[];
}

/**
 * Paths are of Deno's tests, so naming one leaves the other runners out.
 * @throws {Error} for an unknown runner, for paths that the runner cannot take, and for a path that is not there.
 */
export function parseTestOptions(args: readonly string[]): TestOptions {
  const { values: { only, sanitize }, positionals: paths } = parseArgs({
    args: [...args],
    options: { only: { type: "string" }, sanitize: { type: "boolean", default: false } },
    allowPositionals: true,
  });
  const runner = RUNNERS.find((name) => name === only);
  if (only !== undefined && runner === undefined) throw new Error(`--only is "${only}", expected one of ${RUNNERS.join(", ")}`);
  if (paths.length === 0) return { runners: runner === undefined ? DEFAULT_RUNNERS : [runner], isSanitized: sanitize, paths };
  if ((runner ?? "deno") !== "deno") throw new Error(`--only ${runner} takes no paths; found ${paths.join(" ")}`);
  for (const path of paths) checkPath(path);
  return { runners: ["deno"], isSanitized: sanitize, paths };
}

/** Deno itself reports a path without tests only after everything has been set up. */
function checkPath(path: string): void {
  try {
    Deno.statSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new Error(`There is no file or folder ${path}; expected tests such as tests/cli or tests/cli/arguments_test.ts`);
  }
}
