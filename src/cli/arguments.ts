/** The flags of `serve`. */
import type { FlagGroup, SettingsOf } from "./command.ts";
import { DTYPES, KV_BITS } from "./compute_type.ts";
import { checkHostName, checkOrigin } from "./origin_check.ts";
import { LOG_LEVELS } from "./request_log.ts";
import { amount, choice, integer, onOff, seconds, text, texts } from "./flags.ts";

const MAX_INT32 = 2 ** 31 - 1;
const DAY_SECONDS = 86_400;

const MODEL = {
  model: text({
    placeholder: "MODEL",
    default: null,
    defaultText: "SmolLM2-135M-Instruct, fetched once",
    help: "A .gguf file, a folder with config.json and .safetensors files, or a repository of the hub: org/name[@revision][:file-pattern]",
  }),
  models: text({
    placeholder: "MODEL,MODEL",
    default: null,
    help: "Several models in place of --model, each loaded when a request names it; the first is the default",
  }),
  dtype: choice({
    choices: DTYPES,
    default: "auto",
    help: "What weights are held in. auto: as stored, which is the fastest everywhere; float32 that memory does not allow becomes bfloat16",
  }),
  kvBits: choice({
    choices: KV_BITS,
    default: "auto",
    help: "Bits of a number in the KV cache. auto: as computed. 8: a quarter of float32's memory, changes texts a little; only on a CPU",
  }),
} as const;

const MEMORY = {
  memory: amount({
    placeholder: "GB",
    default: null,
    defaultText: "80 % of what is free at the start",
    min: 0.001,
    max: 100_000,
    unit: "gigabytes",
    help: "Memory for everything: program, weights, KV, prefixes, a step; short of it, requests wait, and unused models are unloaded",
  }),
  idleUnload: amount({
    placeholder: "MINUTES",
    default: null,
    defaultText: "never",
    min: 0.01,
    max: 1_000_000,
    unit: "minutes",
    help: "Unload a model that nobody has used for so long; the next request loads it again",
  }),
  prefixCacheMb: integer({
    placeholder: "MB",
    default: 512,
    min: 0,
    max: 10_000_000,
    help: "Memory of each model for computed prompts: a beginning shared with an earlier prompt is not computed again; 0 turns it off",
  }),
  prefixCacheDisk: text({
    placeholder: "DIR",
    default: null,
    help: "Folder to keep computed prompts in as well, so that they outlive the server; several servers may share one",
  }),
  prefixCacheDiskMb: integer({
    placeholder: "MB",
    default: null,
    defaultText: "4096",
    min: 1,
    max: 100_000_000,
    help:
      "Size of --prefix-cache-disk, all models together; what was unused for longest goes first. Servers that share it take the smallest",
  }),
} as const;

const ROWS = {
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
    help: "Prompt tokens computed in one step, at most, of all prompts together: running answers wait no longer than that",
  }),
  batchInvariant: onOff({
    help:
      "Serve only where a request's text and logprobs are the same bits whatever else runs: on a CPU. Long prompts of Qwen3.5 take longer",
  }),
} as const;

const DRAFTS = {
  noSpeculation: onOff({ help: "Draft no tokens ahead. Drafts change the speed, never a text" }),
  draftModel: text({
    placeholder: "PATH",
    default: null,
    defaultText: "the model's own: an MTP head in its checkpoint, or the folder NAME.drafter beside NAME.gguf",
    help: "Folder with a drafter for the model: an MTP head, EAGLE-3 or DFlash; the README names one for the default model",
  }),
  draftKind: choice({
    choices: ["auto", "ngram", "mtp", "eagle3", "dflash"],
    default: "auto",
    help:
      "Who drafts beside ngram, which looks up what followed the same words before (auto: any there is); a request takes whoever does best",
  }),
  draftTokens: integer({
    placeholder: "TOKENS",
    default: null,
    defaultText: "7, or what the drafter was made for",
    min: 1,
    max: 32,
    help: "Tokens drafted ahead for one request in one step, at most; fewer when they are not worth it",
  }),
} as const;

const NETWORK = {
  host: text({ placeholder: "HOST", default: "127.0.0.1", help: "Address to listen on; 0.0.0.0 for every network (then use --api-key)" }),
  port: integer({ placeholder: "PORT", default: 8080, min: 0, max: 65_535, help: "Port to listen on; 0 takes any that is free" }),
  apiKey: texts({
    placeholder: "KEY",
    help: "Key that every request but GET /health has to bring (Authorization: Bearer KEY); may be repeated",
  }),
  apiKeyFile: text({ placeholder: "PATH", default: null, help: "File with keys as for --api-key, one a line" }),
  allowOrigin: texts({
    placeholder: "ORIGIN",
    help: "Web page origin that may call the server from a browser, or *; may be repeated",
    check: checkOrigin,
  }),
  allowHost: texts({
    placeholder: "HOST",
    help: "Name that requests may call the server by besides localhost, as a proxy passes it on, or * for any; may be repeated",
    check: checkHostName,
  }),
  keepAlive: seconds({
    placeholder: "SECONDS",
    default: 10,
    min: 0.1,
    max: DAY_SECONDS,
    help: "Silence in a stream after which a comment is sent, so that no proxy takes it for dead",
  }),
} as const;

const LIMITS = {
  maxQueue: integer({
    placeholder: "REQUESTS",
    default: 256,
    min: 0,
    max: 1_000_000,
    help: "Requests that may wait for their turn (--max-batch run at once); the next one is answered 429",
  }),
  maxBody: integer({ placeholder: "MIB", default: 16, min: 1, max: 1024, help: "Size of a request's body, at most" }),
  bodyTimeout: seconds({
    placeholder: "SECONDS",
    default: 60,
    min: 0.1,
    max: DAY_SECONDS,
    help: "Time that a request's body may take to arrive",
  }),
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
  supervise: onOff({ help: "Start the server again when its process dies, as it can after a fault of a GPU" }),
  logLevel: choice({ choices: LOG_LEVELS, default: "info", help: "Requests that are logged: all, those refused or failed, those failed" }),
  logFormat: choice({
    choices: ["text", "json"],
    default: "text",
    help: "How a request is logged: as a readable line, or as a JSON object",
  }),
} as const;

/** Every flag of `serve`; `maxBatch` is written `--max-batch`. */
export const SERVE_FLAGS = { ...MODEL, ...MEMORY, ...ROWS, ...DRAFTS, ...NETWORK, ...LIMITS } as const;

/** How the help orders them; other commands that take some of them have the same order. */
export const SERVE_GROUPS: readonly FlagGroup[] = [
  { title: "Model", keys: Object.keys(MODEL) },
  { title: "Memory", keys: Object.keys(MEMORY) },
  { title: "Rows and prompts", keys: Object.keys(ROWS) },
  { title: "Drafts", keys: Object.keys(DRAFTS) },
  { title: "Network", keys: Object.keys(NETWORK) },
  { title: "Limits and logs", keys: Object.keys(LIMITS) },
];

export type ServeSettings = SettingsOf<typeof SERVE_FLAGS>;
