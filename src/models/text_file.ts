import { ModelFileError } from "./model_file_error.ts";

const MB = 1 << 20;

/** A small file of a checkpoint folder. null: it does not exist. @throws {ModelFileError} when it is too large or cannot be read. */
export function readTextFile(path: string, maxMegabytes: number): string | null {
  try {
    const info = Deno.statSync(path);
    if (!info.isFile) throw new ModelFileError(`Cannot read ${path}: it is not a file`);
    if (info.size > maxMegabytes * MB) {
      throw new ModelFileError(`Cannot read ${path}: it has ${info.size} bytes, at most ${maxMegabytes} MB are allowed`);
    }
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    if (error instanceof ModelFileError) throw error;
    throw new ModelFileError(`Cannot read ${path}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** A JSON object from a file. null: the file does not exist. @throws {ModelFileError} */
export function readJsonFile(path: string, maxMegabytes = 16): Record<string, unknown> | null {
  const text = readTextFile(path, maxMegabytes);
  if (text === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ModelFileError(`Cannot read ${path}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new ModelFileError(`Cannot read ${path}: it holds ${JSON.stringify(value)?.slice(0, 40)} instead of a JSON object`);
}
