/** Writes the default model as a folder that the training reads: config.json and float32 safetensors. */
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { writeFloat32Folder } from "../bench/peers/float32_folder.ts";
import { ensureModel } from "../setup.ts";

if (import.meta.main) {
  const [folder] = Deno.args;
  if (folder === undefined || Deno.args.length > 1) {
    console.error(`export: found ${Deno.args.length} arguments, expected the folder to write`);
    Deno.exit(1);
  }
  await writeFloat32Folder(await ensureModel(new TerminalProgress()), folder);
}
