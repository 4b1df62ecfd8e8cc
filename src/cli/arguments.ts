/** The command line: one table of flags that parses, and that `--help` and the README are written from. */
import { parseArgs } from "node:util";
import { LOG_LEVELS } from "./request_log.ts";
import { choice, type Flag, integer, seconds, text, texts, UsageError } from "./flags.ts";

const MAX_INT32 = 2 ** 31 - 1;
const DAY_SECONDS = 86_400;

/** Every flag of `serve` that takes a value; `maxBatch` is written `--max-batch`. */
export const SERVE_FLAGS = {
  model: text({
    placeholder: "PATH",
    default: null,
    defaultText: "SmolLM2-135M-Instruct, fetched once",
    help: "A .gguf file, or a folder with config.json and .safetensors files",
  }),
  host: text({ placeholder: "HOST", default: "127.0.0.1", help: "Address to listen on; 0.0.0.0 for every network (then use --api-key)" }),
  port: integer({ placeholder: "PORT", default: 8080, min: 0, max: 65_535, help: "Port to listen on; 0 takes any that is free" }),
  maxBatch: integer({ placeholder: "ROWS", default: 16, min: 1, max: 1024, help: "Requests that are computed together, at most" }),
  maxContext: integer({
    placeholder: "TOKENS",
    default: null,
    defaultText: "the model's, at most 8192",
    min: 16,
    max: MAX_INT32,
    help: "Tokens of one request, prompt and answer together, at most",
  }),
  prefillChunk: integer({
    placeholder: "TOKENS",
    default: 256,
    min: 1,
    max: 65_536,
    help: "Prompt tokens computed in one step, at most: running answers wait no longer than that",
  }),
  maxQueue: integer({
    placeholder: "REQUESTS",
    default: 256,
    min: 0,
    max: 1_000_000,
    help: "Requests that may wait for a row; the next one is answered 429",
  }),
  apiKey: texts({ placeholder: "KEY", help: "Key that every request has to bring (Authorization: Bearer KEY); may be repeated" }),
  apiKeyFile: text({ placeholder: "PATH", default: null, help: "File with such keys, one a line" }),
  allowOrigin: texts({ placeholder: "ORIGIN", help: "Web page origin that may call the server from a browser, or *; may be repeated" }),
  requestTimeout: seconds({
    placeholder: "SECONDS",
    default: 600,
    min: 0,
    max: DAY_SECONDS,
    help: "Time of one request, at most; 0 for no limit",
  }),
  drainTimeout: seconds({
    placeholder: "SECONDS",
    default: 30,
    min: 0,
    max: DAY_SECONDS,
    help: "Time that running requests get when the server is told to stop",
  }),
  logLevel: choice({ choices: LOG_LEVELS, default: "info", help: "Requests that are logged: all, those refused or failed, those failed" }),
  logFormat: choice({ choices: ["text", "json"], default: "text", help: "A readable line or a JSON object for each" }),
} as const;

type ValueOf<F> = F extends Flag<infer T> ? T : never;
export type ServeSettings = { readonly [K in keyof typeof SERVE_FLAGS]: ValueOf<(typeof SERVE_FLAGS)[K]> };

export type Invocation =
  | { readonly command: "serve"; readonly settings: ServeSettings }
  | { readonly command: "help" }
  | { readonly command: "version" };

/** `maxBatch` → `max-batch`. */
export function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/**
 * What the arguments ask for. `serve` is the command when none is named.
 * @throws {UsageError}
 */
export function parseArguments(args: readonly string[]): Invocation {
  const { values, positionals } = readArguments(args);
  if (values.get("help") !== undefined) return { command: "help" };
  if (values.get("version") !== undefined) return { command: "version" };
  const [command = "serve", ...rest] = positionals;
  if (command !== "serve") throw new UsageError(`Unknown command "${command}", expected serve`);
  if (rest.length > 0) throw new UsageError(`Unexpected argument "${rest[0]}"`);
  return { command, settings: parseSettings(values) };
}

function parseSettings(values: ReadonlyMap<string, readonly string[]>): ServeSettings {
  const entries = Object.entries(SERVE_FLAGS).map(([key, flag]: [string, Flag<unknown>]): [string, unknown] => {
    const found = values.get(flagName(key));
    return [key, found === undefined ? flag.default : flag.parse(found, `--${flagName(key)}`)];
  });
  return Object.fromEntries(entries) as ServeSettings;
}

function readArguments(args: readonly string[]): { values: Map<string, string[]>; positionals: string[] } {
  const switches = {
    help: { type: "boolean", short: "h", multiple: true },
    version: { type: "boolean", short: "V", multiple: true },
  } as const;
  const valued = Object.keys(SERVE_FLAGS).map((key) => [flagName(key), { type: "string", multiple: true }] as const);
  try {
    const parsed = parseArgs({
      args: [...args],
      options: { ...Object.fromEntries(valued), ...switches },
      allowPositionals: true,
      strict: true,
    });
    const values = Object.entries(parsed.values).map(([name, found]): [string, string[]] => [name, [found ?? []].flat().map(String)]);
    return { values: new Map(values), positionals: parsed.positionals };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UsageError(firstSentence(error.message));
  }
}

/** Node's messages go on with advice about `--`, which takes no part in these commands. */
function firstSentence(message: string): string {
  return message.split(/\.\s|\n/)[0] ?? message;
}
