/** Python packages for tests, kept in the cache folder and never in the user's own Python. */
import { join } from "node:path";
import { cacheFolder } from "../../src/hub/cache_folder.ts";
import { tryCommand } from "../../src/hub/command.ts";
import { withFileLock } from "../../src/hub/file_lock.ts";
import { exists, removeAll } from "../native/native_paths.ts";

const INSTALL_TIMEOUT_MS = 180_000;

export type PythonPackages =
  /** What Python has to be started with. */
  | { readonly env: Readonly<Record<string, string>> }
  /** Why there are none: no Python, no pip, no network. */
  | { readonly missing: string };

/** Installs `packages`, named with their versions, once. Does not throw when that is not possible. */
export async function pythonPackages(name: string, packages: readonly string[]): Promise<PythonPackages> {
  const folder = join(cacheFolder(), "python", `${name}-${packages.join("-").replace(/[^\w.]+/g, "_")}`);
  if (!await exists(folder)) {
    const missing = await withFileLock(`${folder}.lock`, () => {}, () => install(folder, packages));
    if (missing !== null) return { missing };
  }
  return { env: { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: "1" } };
}

/** @returns null when the folder is there, else why not. */
async function install(folder: string, packages: readonly string[]): Promise<string | null> {
  if (await exists(folder)) return null;
  const part = `${folder}.part`;
  await removeAll(part);
  const pip = ["python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--target", part, ...packages];
  const { code, tail } = await tryCommand(pip, { timeoutMs: INSTALL_TIMEOUT_MS });
  if (code !== 0) return `${pip.slice(0, 4).join(" ")} ${packages.join(" ")} ended with exit code ${code}: ${tail.slice(-2).join(" ")}`;
  await Deno.rename(part, folder);
  return null;
}
