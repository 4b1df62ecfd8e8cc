/** What the operator may set, with the values taken when nothing is set. */
import type { LogFormat, RequestRecord } from "./logging.ts";
import { randomSeed } from "./seeds.ts";

export interface ServerOptions {
  /** Address that the server is bound to; a loopback one turns the Host check on. @default "127.0.0.1" */
  readonly hostname: string;
  /** @default [] no key is asked for */
  readonly apiKeys: readonly string[];
  /** Origins whose pages may read answers, "*" for all. @default [] none */
  readonly allowOrigins: readonly string[];
  /** Names that requests may call the server by, besides those of this machine; "*" for any. @default [] on loopback none, elsewhere any */
  readonly allowHosts: readonly string[];
  /** Rows that share a step, as the engine was told. @default 16 */
  readonly maxBatch: number;
  /** Sequences that may wait for a row, as the engine was told. @default 256 */
  readonly maxQueue: number;
  /** Tokens of one sequence, prompt and answer; the model's own limit applies too. @default Infinity */
  readonly maxContext: number;
  /** @default 16 MiB */
  readonly maxBodyBytes: number;
  /** How long a large body waits while others fill the memory that all of them may take. @default 2,000 */
  readonly bodyWaitMs: number;
  /** Time for a request's body to arrive. @default 60,000 */
  readonly bodyTimeoutMs: number;
  /** @default 128 */
  readonly maxJsonDepth: number;
  /** Time for one request from admission to its last token. @default Infinity */
  readonly requestTimeoutMs: number;
  /** Silence in a stream after which a comment is sent; also how long a stream waits for its first token before it commits to status 200. @default 10,000 */
  readonly keepAliveMs: number;
  /** @default "text" */
  readonly logFormat: LogFormat;
  /** Takes one line per request, and what it was made from; null for no log. @default stderr */
  readonly writeLog: ((line: string, record: RequestRecord) => void) | null;
  /** Part of the fingerprint and of the OpenAPI document. @default "0.1.0" */
  readonly version: string;
  /** Clock in milliseconds. */
  readonly nowMs: () => number;
  /** Makes ids unique. */
  readonly newId: () => string;
  /** Seeds of requests without one. */
  readonly randomSeed: () => bigint;
}

const DEFAULTS: ServerOptions = {
  hostname: "127.0.0.1",
  apiKeys: [],
  allowOrigins: [],
  allowHosts: [],
  maxBatch: 16,
  maxQueue: 256,
  maxContext: Infinity,
  maxBodyBytes: 16 * 2 ** 20,
  bodyWaitMs: 2000,
  bodyTimeoutMs: 60_000,
  maxJsonDepth: 128,
  requestTimeoutMs: Infinity,
  keepAliveMs: 10_000,
  logFormat: "text",
  writeLog: (line) => console.error(line),
  version: "0.1.0",
  nowMs: () => performance.timeOrigin + performance.now(),
  newId: () => crypto.randomUUID().replaceAll("-", ""),
  randomSeed,
};

export function withDefaults(options: Partial<ServerOptions>): ServerOptions {
  return { ...DEFAULTS, ...options };
}
