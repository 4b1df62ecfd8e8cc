/** The models that `serve` serves: one that is loaded at once, or several that are loaded when somebody asks for them. */
import type { PoolLimits } from "../server/model_pool.ts";
import type { PoolMember } from "../server/pooled_model.ts";
import { servingBytes } from "./allowed_memory.ts";
import type { ServeSettings } from "./arguments.ts";
import { checkOwnDrafter } from "./choose_drafter.ts";
import { chooseComputeType, type ComputeTypeSettings } from "./compute_type.ts";
import { UsageError } from "./flags.ts";
import { checkMemory } from "./least_memory.ts";
import { DEFAULT_MODEL_NAMES, findModel, isDefaultModel, readModel } from "./model_source.ts";
import { makePrefixDisk } from "./prefix_disk.ts";
import { type EngineSettings, startEngine } from "./start_engine.ts";
import { TerminalProgress } from "./terminal_progress.ts";

/** What models stand on. */
export interface ModelGround {
  readonly libraryPath: string;
  readonly isGpu: boolean;
  /** For all models together. */
  readonly memoryBytes: number;
}

/**
 * Every model is fetched where it is missing, read and checked before the server starts: what is listed can be served, and no request waits
 * for a download.
 * @throws {UsageError | Error} when one of them cannot be had.
 */
export async function serveModels(settings: ServeSettings, { libraryPath, isGpu, memoryBytes }: ModelGround): Promise<PoolMember[]> {
  const names = modelNames(settings);
  const prefixDisk = await makePrefixDisk(settings);
  const members: PoolMember[] = [];
  const engine = { ...settings, libraryPath, memoryBytes, programBytes: servingBytes(settings), prefixDisk };
  const typing = { dtype: settings.dtype, kvBits: settings.kvBits, isGpu, memoryBytes };
  for (const name of names) members.push(await readMember(name, engine, typing));
  const [only] = members;
  if (settings.models !== null || only === undefined) return members;
  // A model that is the only one is loaded before the server starts: what is wrong with it shows at once, and nobody waits for it.
  return [{ ...only, engine: await only.startEngine!() }];
}

/** What the flags mean to the pool. @param memoryBytes of all models together. */
export function poolLimits({ idleUnload, maxBatch, maxQueue }: ServeSettings, memoryBytes: number): PoolLimits {
  return {
    memoryBytes,
    idleUnloadMs: idleUnload === null ? Infinity : idleUnload * 60_000,
    maxWaiting: maxBatch + maxQueue,
  };
}

/** Whether the default model is among those that are served. What is wrong with the names is told later. */
export function needsDefaultModel({ model, models }: Pick<ServeSettings, "model" | "models">): boolean {
  return models === null ? isDefaultModel(model) : models.split(",").some((name) => isDefaultModel(name.trim()));
}

/** null names the default model. @throws {UsageError} */
export function modelNames({ model, models }: Pick<ServeSettings, "model" | "models">): readonly (string | null)[] {
  if (models === null) return [model];
  if (model !== null) throw new UsageError("--model and --models are both given, expected one of them");
  const names = models.split(",").map((name) => name.trim());
  if (names.includes("")) throw new UsageError(`--models is "${models}", expected names with one comma between two`);
  return names;
}

async function readMember(name: string | null, settings: EngineSettings, typing: ComputeTypeSettings): Promise<PoolMember> {
  const found = await findModel(name, new TerminalProgress());
  checkOwnDrafter(found.path, settings);
  const startedMs = performance.now();
  const { model, weightBytes, text } = chooseComputeType(readModel(found), typing);
  const numStepTokens = settings.prefillChunk + settings.maxBatch;
  checkMemory(model, { ...settings, weightBytes, numStepTokens, hasDisk: settings.prefixDisk !== null });
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`model ${model.id} (${model.modelType}): read and checked in ${seconds} s; ${text}`);
  return {
    model,
    aliases: isDefaultModel(name) ? DEFAULT_MODEL_NAMES : [],
    expectedBytes: weightBytes,
    startEngine: () => startEngine(model, settings, (text) => console.log(`${model.id}: ${text}`)),
  };
}
