/** What makes pages of one engine of no use to another. */
import { createHash } from "node:crypto";
import { cpus } from "node:os";
import type { ModelSpec } from "../../native/model_spec.ts";
import type { EngineOptions } from "../messages.ts";
import { FORMAT } from "./page_file.ts";

export type IdentityParts = Pick<EngineOptions, "libraryPath" | "model" | "isBatchInvariant" | "speculation">;

/**
 * A SHA-256, in hexadecimal, over everything that decides the bits of a page besides its tokens: the native library's content, the processor,
 * how it computes, and of model and drafter their configs, tensors, and the sizes and times of their files. (Files are too large to hash; whoever
 * changes one changes its times, the one of its last change cannot be set by anybody.)
 * @throws {Error} when one of the files is not there.
 */
export async function modelIdentity({ libraryPath, model, isBatchInvariant, speculation }: IdentityParts): Promise<string> {
  const drafter = speculation?.drafter ?? null;
  const library = createHash("sha256").update(await Deno.readFile(libraryPath)).digest("hex");
  const parts = [
    FORMAT,
    library,
    Deno.build.target,
    processor(),
    isBatchInvariant === true,
    await describe(model),
    drafter === null ? null : [drafter.kind, drafter.capture, await describe(drafter.spec)],
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** Libraries choose their kernels by it. "" when this program may not know. */
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
