/** Runs `deno compile`, with the runtime that Deno downloads, or where its site cannot be reached, with one that a tool makes for tests. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "../../src/hub/cache_folder.ts";
import { CommandError, runCommand, tryCommand } from "../../src/hub/command.ts";
import { withFileLock } from "../../src/hub/file_lock.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { exists, removeAll } from "../native/native_paths.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** A newer Deno keeps what it compiles elsewhere in the file than the runtime of the tool looks for it. */
const TEST_DENO = "2.8.3";

export interface Compiled {
  /** Whether the runtime is Deno's own. If not, the result is for tests only. */
  readonly isRelease: boolean;
}

/** @throws {Error} with the output of `deno compile` when it fails for another reason than the download, or when there is no other runtime. */
export async function denoCompile(args: readonly string[], progress: Progress): Promise<Compiled> {
  progress.note("Compiling");
  const own = await tryCommand([Deno.execPath(), "compile", ...args], { cwd: ROOT, env: { NO_COLOR: "1" } });
  if (own.code === 0) return { isRelease: true };
  const text = own.tail.join("\n");
  if (!/denort|error sending request/.test(text)) throw new CommandError(`deno compile failed:\n${text}`);
  const tool = await findTool();
  if (tool === null) {
    throw new Error(
      `deno compile cannot download its runtime, and neither ROWLOCK_DENORT nor ../shared/tools/denort gives another:\n${text}`,
    );
  }
  progress.note("Deno's site is out of reach; compiling with a runtime that is for tests only");
  const { deno, runtime } = await testRuntime(tool);
  await runCommand([deno, "compile", ...args], { cwd: ROOT, env: { DENORT_BIN: runtime, NO_COLOR: "1" } });
  return { isRelease: false };
}

/** A program that makes a runtime in a folder and prints its path: `ROWLOCK_DENORT`, else the one that lies beside the checkout. */
async function findTool(): Promise<string | null> {
  const named = Deno.env.get("ROWLOCK_DENORT");
  if (named) return named;
  const beside = join(ROOT, "..", "shared", "tools", "denort");
  return await exists(beside) ? beside : null;
}

async function testRuntime(tool: string): Promise<{ readonly deno: string; readonly runtime: string }> {
  const folder = join(cacheFolder(), "denort");
  return await withFileLock(join(folder, "lock"), () => {}, async () => {
    const runtime = (await runCommand([tool, folder])).at(-1) ?? "";
    const cli = join(folder, `cli-${TEST_DENO}`);
    if (!await exists(cli)) {
      const part = `${cli}.part`;
      await removeAll(part);
      await runCommand([
        "python3",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        part,
        `deno==${TEST_DENO}`,
      ]);
      await Deno.rename(part, cli);
    }
    return { deno: join(cli, "bin", "deno"), runtime };
  });
}
