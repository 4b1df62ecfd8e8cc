import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";

/**
 * The keys of the command line and of the key file: one a line, empty lines and lines that begin with `#` left out.
 * @throws {UsageError} for a file that cannot be read or holds no key, and for a key that no HTTP header could carry.
 */
export async function readApiKeys(settings: Pick<ServeSettings, "apiKey" | "apiKeyFile">): Promise<string[]> {
  const keys = [...settings.apiKey, ...await readKeyFile(settings.apiKeyFile)];
  // The key itself stays out of the message: it ends up in logs.
  const position = keys.findIndex((key) => !/^[\x21-\x7e]+$/.test(key));
  if (position >= 0) throw new UsageError(`API key number ${position + 1} has a character that is not printable ASCII without spaces`);
  return keys;
}

async function readKeyFile(path: string | null): Promise<string[]> {
  if (path === null) return [];
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    throw new UsageError(`--api-key-file ${path} cannot be read: ${(error as Error).message}`);
  }
  const keys = text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  // Started without a key, the server would be open to everybody, which is not what was asked for.
  if (keys.length === 0) throw new UsageError(`--api-key-file ${path} holds no key`);
  return keys;
}
