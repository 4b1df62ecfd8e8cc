/** Models in several GGUF files: `name-00001-of-00003.gguf` and its neighbours, as llama.cpp splits them. */
import { basename, dirname, join } from "node:path";
import { type GgufFile, readGguf } from "./gguf.ts";
import { ModelFileError } from "./model_file_error.ts";

const PART_NAME = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;
const MAX_PARTS = 4096;

/** The paths of all parts, in order, when `path` is one of several; null for a file that stands alone. */
export function ggufParts(path: string): string[] | null {
  const [, name, , count] = PART_NAME.exec(basename(path)) ?? [];
  const numParts = Number(count ?? 1);
  if (numParts < 2 || numParts > MAX_PARTS) return null;
  const part = (i: number): string => `${name}-${String(i + 1).padStart(5, "0")}-of-${count}.gguf`;
  return Array.from({ length: numParts }, (_, i) => join(dirname(path), part(i)));
}

/** What a model is called after its file: parts bear the model's name before their number. */
export function ggufModelName(path: string): string {
  return PART_NAME.exec(basename(path))?.[1] ?? basename(path, ".gguf");
}

/**
 * A model's header: of one file, or of all its parts, whichever of them is named. The first part has the metadata, each has a table of its own tensors.
 * @throws {ModelFileError} when a part is missing, or is not what its name says.
 */
export function readGgufModel(path: string): GgufFile {
  const file = readGguf(path);
  const numParts = file.metadata.number("split.count") ?? 1;
  if (numParts <= 1) return file;
  const paths = ggufParts(path);
  if (paths?.length !== numParts) {
    throw new ModelFileError(
      `Cannot use ${path}: it is one of ${numParts} parts, and its name does not end in -00001-of-${
        String(numParts).padStart(5, "0")
      }.gguf`,
    );
  }
  const parts = paths.map((partPath, i) => readPart(partPath, i, numParts));
  const tensors = parts.flatMap((part) => part.tensors);
  checkTensors(path, tensors, parts[0]!.metadata.number("split.tensors.count"));
  return { ...parts[0]!, tensors };
}

function readPart(path: string, index: number, numParts: number): GgufFile {
  let part: GgufFile;
  try {
    part = readGguf(path);
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    throw new ModelFileError(`Part ${index + 1} of ${numParts} cannot be used: ${error.message}`, { cause: error });
  }
  const found = [part.metadata.number("split.no"), part.metadata.number("split.count")];
  if (found[0] === index && found[1] === numParts) return part;
  throw new ModelFileError(`Cannot use ${path}: it says to be part ${found[0]} (from 0) of ${found[1]}, not ${index} of ${numParts}`);
}

function checkTensors(path: string, tensors: readonly { readonly name: string }[], numWanted: number | undefined): void {
  const names = new Set<string>();
  for (const { name } of tensors) {
    if (names.has(name)) throw new ModelFileError(`Cannot use ${path}: tensor ${name} is in two of its parts`);
    names.add(name);
  }
  if (numWanted !== undefined && numWanted !== tensors.length) {
    throw new ModelFileError(`Cannot use ${path}: its parts have ${tensors.length} tensors, the first one says ${numWanted}`);
  }
}
