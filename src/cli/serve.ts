/** The command `serve`: loads a model, serves it, and ends when it is told to. */
import { EngineClient } from "../engine/client.ts";
import type { EngineOptions } from "../engine/messages.ts";
import { ensureDefaultModel } from "../hub/default_model.ts";
import { loadModel } from "../models/checkpoint.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import { type RunningServer, serve as startServer } from "../server/serve.ts";
import { readApiKeys } from "./api_keys.ts";
import type { ServeSettings } from "./arguments.ts";
import { bundledModel } from "./bundle.ts";
import { libraryPath } from "./library_path.ts";
import { requestLog } from "./request_log.ts";
import { isSupervised, watchHealth, watchSupervisor } from "./supervised.ts";
import { TerminalProgress } from "./terminal_progress.ts";
import { tryLine } from "./try_line.ts";
import { VERSION } from "./version.ts";

/** What a sequence may hold when nothing is said: long contexts cost memory that nobody may want. */
const DEFAULT_MAX_CONTEXT = 8192;
const INTERRUPTED = 130;

/**
 * Serves until SIGINT or SIGTERM; a second one ends the process at once.
 * @throws {Error} with one line that says what is wrong, when the model cannot be loaded or the address cannot be had.
 */
export async function serve(settings: ServeSettings): Promise<void> {
  const apiKeys = await readApiKeys(settings);
  const nativeLibrary = await libraryPath();
  checkAddress(settings);
  const model = await readModel(settings);
  const maxContext = Math.min(settings.maxContext ?? DEFAULT_MAX_CONTEXT, model.maxContext);
  const engine = await startEngine(model, { ...settings, libraryPath: nativeLibrary, maxContext });
  try {
    const server = listen(settings, model, engine, { apiKeys, maxContext });
    announce(server, model, apiKeys.length > 0);
    await untilStopped(server, settings.drainTimeout * 1000);
  } finally {
    await engine.close();
  }
}

async function readModel(settings: ServeSettings): Promise<LoadedModel> {
  const path = settings.model ?? await ensureDefaultModel({ progress: new TerminalProgress(), bundled: bundledModel() });
  const startedMs = performance.now();
  const model = await loadModel(path);
  console.log(`model ${model.id} (${model.modelType}): read and checked in ${secondsSince(startedMs)}`);
  return model;
}

type EngineSettings = Pick<ServeSettings, "maxBatch" | "maxQueue" | "prefillChunk" | "batchInvariant" | "noSpeculation" | "draftTokens"> & {
  readonly libraryPath: string;
  readonly maxContext: number;
};

async function startEngine(model: LoadedModel, settings: EngineSettings): Promise<EngineClient> {
  const { libraryPath, maxBatch, maxContext, maxQueue, prefillChunk, batchInvariant: isBatchInvariant } = settings;
  const startedMs = performance.now();
  const engine = await EngineClient.start({
    libraryPath,
    model: model.spec,
    maxBatch,
    maxContext,
    maxQueue,
    prefillChunk,
    isBatchInvariant,
    ...speculationOf(settings),
  });
  const weights = `${(engine.facts.weightBytes / 1e6).toFixed(0)} MB of weights`;
  console.log(`engine on ${engine.facts.device}: ${weights} in ${secondsSince(startedMs)}, ${maxBatch} rows of up to ${maxContext} tokens`);
  return engine;
}

function speculationOf({ noSpeculation, draftTokens }: EngineSettings): Pick<EngineOptions, "speculation"> {
  if (noSpeculation) return {};
  return { speculation: draftTokens === null ? {} : { maxDrafts: draftTokens } };
}

function listen(
  settings: ServeSettings,
  model: LoadedModel,
  engine: EngineClient,
  limits: { readonly apiKeys: readonly string[]; readonly maxContext: number },
): RunningServer {
  const options = {
    hostname: settings.host,
    apiKeys: limits.apiKeys,
    allowOrigins: settings.allowOrigin,
    maxBatch: settings.maxBatch,
    maxQueue: settings.maxQueue,
    maxContext: limits.maxContext,
    requestTimeoutMs: settings.requestTimeout === 0 ? Infinity : settings.requestTimeout * 1000,
    logFormat: settings.logFormat,
    writeLog: requestLog(settings.logLevel, (line) => console.error(line)),
    version: VERSION,
  };
  return withAddressErrors(settings, () => startServer({ model, engine, options, port: settings.port }));
}

/** Loading takes a while: an address that is taken shows before it. */
function checkAddress(settings: ServeSettings): void {
  withAddressErrors(settings, () => Deno.listen({ hostname: settings.host, port: settings.port })).close();
}

function withAddressErrors<T>({ host, port }: ServeSettings, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) {
      throw new Error(`Port ${port} on ${host} is in use; choose another one with --port, or 0 for any`);
    }
    throw new Error(`Cannot listen on ${host} port ${port}: ${(error as Error).message}`);
  }
}

function announce(server: RunningServer, model: LoadedModel, isKeyNeeded: boolean): void {
  console.log(
    `listening on ${server.url}\n\nBase URL for OpenAI clients:\n  ${server.url}/v1\nTry it:\n  ${
      tryLine(server.url, model, isKeyNeeded)
    }\n`,
  );
}

async function untilStopped(server: RunningServer, drainTimeoutMs: number): Promise<void> {
  let numSignals = 0;
  const stop = (): void => {
    numSignals++;
    // The second signal ends what runs, each stream with its error event, which takes a moment; the third does not wait for that.
    if (numSignals > 2) Deno.exit(INTERRUPTED);
    const { numLive } = server.app;
    if (numSignals === 1) {
      console.error(numLive > 0 ? `Stopping when ${numLive} running requests have ended; again to stop now` : "Stopping");
    }
    server.drain(drainTimeoutMs);
  };
  const signals: Deno.Signal[] = ["SIGINT", "SIGTERM"];
  for (const signal of signals) Deno.addSignalListener(signal, stop);
  const endWatch = isSupervised() ? watchHealth(server.url) : (): void => {};
  if (isSupervised()) watchSupervisor(stop);
  await server.finished;
  endWatch();
  for (const signal of signals) Deno.removeSignalListener(signal, stop);
}

function secondsSince(startedMs: number): string {
  return `${((performance.now() - startedMs) / 1000).toFixed(1)} s`;
}
