/** What makes pages of one engine of no use to another. */
import { createHash } from "node:crypto";
import { cpus } from "node:os";
import type { ModelSpec } from "../../native/model_spec.ts";
import type { EngineOptions } from "../messages.ts";
import { FORMAT } from "./page_file.ts";

export interface IdentityParts extends Pick<EngineOptions, "libraryPath" | "model" | "isBatchInvariant" | "speculation"> {
  /** What `NativeLibrary.buildInfo` tells: also which kernels it takes in this process. */
  readonly build: Readonly<Record<string, string>>;
}

/**
 * A SHA-256, in hexadecimal, over everything that decides the bits of a page besides its tokens: the native library's content and the kernels
 * that it takes, the processor, how it computes, and of model and drafter their configs, tensors, and the sizes and times of their files. (Files are too large to hash; whoever
 * changes one changes its times, the one of its last change cannot be set by anybody.)
 * @throws {Error} when one of the files is not there.
 */
export async function modelIdentity({ libraryPath, build, model, isBatchInvariant, speculation }: IdentityParts): Promise<string> {
  const drafter = speculation?.drafter ?? null;
  const library = createHash("sha256").update(await Deno.readFile(libraryPath)).digest("hex");
  const parts = [
    FORMAT,
    library,
    Object.entries(build).sort(([a], [b]) => a < b ? -1 : 1),
    Deno.build.target,
    processor(),
    toldBlasCore(),
    isBatchInvariant === true,
    await describe(model),
    drafter === null ? null : [drafter.kind, drafter.capture, await describe(drafter.spec)],
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** What OpenBLAS was told to take in place of what suits the processor; it does not tell what it takes. "" when nothing was. */
function toldBlasCore(): string {
  const name = "OPENBLAS_CORETYPE";
  return Deno.permissions.querySync({ name: "env", variable: name }).state === "granted" ? Deno.env.get(name) ?? "" : "";
}

/** BLAS chooses its kernels by it. "" when this program may not know. */
function processor(): string {
  try {
    return cpus()[0]?.model ?? "";
  } catch {
    return "";
  }
}

async function describe({ config, tensors }: ModelSpec): Promise<unknown> {
  const paths = [...new Set(tensors.map(({ file }) => file))];
  const files = await Promise.all(paths.map(async (path) => {
    const { size, mtime, ctime } = await Deno.stat(path);
    return [size, mtime?.getTime(), ctime?.getTime()];
  }));
  const places = tensors.map((
    { name, type, file, offset, byteLength, shape },
  ) => [name, type, paths.indexOf(file), offset, byteLength, shape]);
  return [config, files, places];
}
