/** The command `serve`: loads what it is given, serves it, and ends when it is told to. */
import { type RunningServer, serve as startServer } from "../server/serve.ts";
import type { PoolMember } from "../server/pooled_model.ts";
import { allowedMemory, servingBytes } from "./allowed_memory.ts";
import { readApiKeys } from "./api_keys.ts";
import type { ServeSettings } from "./arguments.ts";
import { environmentWarnings } from "./check_environment.ts";
import { checkDraftFlags } from "./choose_drafter.ts";
import { checkComputeFlags } from "./compute_type.ts";
import { libraryPath } from "./library_path.ts";
import { lookAtMachine } from "./machine.ts";
import { checkModelName } from "./model_source.ts";
import { keepOnly } from "./permissions.ts";
import { checkPrefixDiskFlags } from "./prefix_disk.ts";
import { requestLog } from "./request_log.ts";
import { modelNames, poolLimits, serveModels } from "./serve_models.ts";
import { DEFAULT_MAX_CONTEXT } from "./start_engine.ts";
import { StopSignals } from "./stop_signals.ts";
import { isSupervised, watchHealth, watchSupervisor } from "./supervised.ts";
import { tryLine } from "./try_line.ts";
import { VERSION } from "./version.ts";

const INTERRUPTED = 130;

/**
 * Serves until SIGINT or SIGTERM; a second one ends what runs at once. One that comes twice within a second is one.
 * @throws {Error} with one line that says what is wrong, when the model cannot be loaded or the address cannot be had.
 */
export async function serve(settings: ServeSettings): Promise<void> {
  // What was typed wrong is told before what the machine lacks.
  for (const name of modelNames(settings)) checkModelName(name);
  checkComputeFlags(settings);
  checkDraftFlags(settings);
  checkPrefixDiskFlags(settings);
  for (const warning of environmentWarnings()) console.error(`rowlock: ${warning}`);
  const apiKeys = await readApiKeys(settings);
  const nativeLibrary = await libraryPath();
  checkAddress(settings);
  const { freeBytes, isGpu } = lookAtMachine(nativeLibrary);
  const { modelBytes, text } = allowedMemory(settings.memory, freeBytes, servingBytes(settings));
  console.log(text);
  const models = await serveModels(settings, { libraryPath: nativeLibrary, isGpu, memoryBytes: modelBytes });
  // Python's pip, which brings the default model, has done its work.
  if (Deno.build.standalone) keepOnly(["net", "write", "ffi"]);
  try {
    const server = listen(settings, models, modelBytes, apiKeys);
    announce(server, models, apiKeys.length > 0);
    await untilStopped(server, settings.drainTimeout * 1000);
    await server.app.close();
  } finally {
    // Where there was no server to do it.
    for (const { engine } of models) await engine?.close();
  }
}

function listen(
  settings: ServeSettings,
  models: readonly PoolMember[],
  memoryBytes: number,
  apiKeys: readonly string[],
): RunningServer {
  const options = {
    hostname: settings.host,
    apiKeys,
    allowOrigins: settings.allowOrigin,
    allowHosts: settings.allowHost,
    maxBodyBytes: settings.maxBody * 2 ** 20,
    bodyTimeoutMs: settings.bodyTimeout * 1000,
    keepAliveMs: settings.keepAlive * 1000,
    maxBatch: settings.maxBatch,
    maxQueue: settings.maxQueue,
    maxContext: settings.maxContext ?? DEFAULT_MAX_CONTEXT,
    requestTimeoutMs: settings.requestTimeout === 0 ? Infinity : settings.requestTimeout * 1000,
    logFormat: settings.logFormat,
    writeLog: requestLog(settings.logLevel, (line) => console.error(line)),
    version: VERSION,
  };
  return withAddressErrors(
    settings,
    () => startServer({ models, limits: poolLimits(settings, memoryBytes), options, port: settings.port }),
  );
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

function announce(server: RunningServer, models: readonly PoolMember[], isKeyNeeded: boolean): void {
  const [{ model }] = models as [PoolMember];
  if (models.length > 1) console.log(`models, loaded when a request names them: ${models.map((member) => member.model.id).join(", ")}`);
  console.log(
    `listening on ${server.url}\n\nBase URL for OpenAI clients:\n  ${server.url}/v1\nTry it:\n  ${
      tryLine(server.url, model, isKeyNeeded)
    }\n`,
  );
}

async function untilStopped(server: RunningServer, drainTimeoutMs: number): Promise<void> {
  const counter = new StopSignals();
  const stop = (name: string): void => {
    const numSignals = counter.count(name);
    if (numSignals === null) return;
    // The second signal ends what runs, each stream with its error event, which takes a moment; the third does not wait for that.
    if (numSignals > 2) Deno.exit(INTERRUPTED);
    const { numLive } = server.app;
    if (numSignals === 1) {
      const running = numLive === 1 ? "1 running request has" : `${numLive} running requests have`;
      console.error(numLive > 0 ? `Stopping when ${running} ended; again to stop now` : "Stopping");
    }
    server.drain(drainTimeoutMs);
  };
  const signals: Deno.Signal[] = ["SIGINT", "SIGTERM"];
  const listeners = signals.map((signal) => [signal, (): void => stop(signal)] as const);
  for (const [signal, listener] of listeners) Deno.addSignalListener(signal, listener);
  const endWatch = isSupervised() ? watchHealth(server.url) : (): void => {};
  if (isSupervised()) watchSupervisor(() => stop("supervisor"));
  await server.finished;
  endWatch();
  for (const [signal, listener] of listeners) Deno.removeSignalListener(signal, listener);
}
