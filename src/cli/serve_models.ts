/** The models that `serve` serves: one that is loaded at once, or several that are loaded when somebody asks for them. */
import type { LoadedModel } from "../models/loaded_model.ts";
import type { PoolLimits } from "../server/model_pool.ts";
import type { PoolMember } from "../server/pooled_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";
import { findModel, readModel } from "./model_source.ts";
import { sizeText } from "./size_text.ts";
import { type EngineSettings, startEngine } from "./start_engine.ts";
import { TerminalProgress } from "./terminal_progress.ts";

const FLOAT32_BYTES = 4;

/**
 * Every model is fetched where it is missing, read and checked before the server starts: what is listed can be served, and no request has to
 * wait for a download.
 * @throws {UsageError | Error} when one of them cannot be had.
 */
export async function serveModels(settings: ServeSettings, libraryPath: string): Promise<PoolMember[]> {
  const names = modelNames(settings);
  const members: PoolMember[] = [];
  for (const name of names) members.push(await readMember(name, { ...settings, libraryPath }));
  const [only] = members;
  if (settings.models !== null || only === undefined) return members;
  return [await loadNow(only, settings)];
}

/** What `--memory` and `--idle-unload` mean to the pool. */
export function poolLimits({ memory, idleUnload, maxBatch, maxQueue }: ServeSettings): PoolLimits {
  return {
    memoryBytes: memory === null ? Infinity : memory * 1e9,
    idleUnloadMs: idleUnload === null ? Infinity : idleUnload * 60_000,
    maxWaiting: maxBatch + maxQueue,
  };
}

/** null names the default model. @throws {UsageError} */
export function modelNames({ model, models }: Pick<ServeSettings, "model" | "models">): readonly (string | null)[] {
  if (models === null) return [model];
  if (model !== null) throw new UsageError("--model and --models are both given, expected one of them");
  const names = models.split(",").map((name) => name.trim());
  if (names.includes("")) throw new UsageError(`--models is "${models}", expected names with one comma between two`);
  return names;
}

async function readMember(name: string | null, settings: EngineSettings): Promise<PoolMember> {
  const found = await findModel(name, new TerminalProgress());
  const startedMs = performance.now();
  const model = readModel(found);
  console.log(`model ${model.id} (${model.modelType}): read and checked in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
  return {
    model,
    expectedBytes: expectedBytes(model),
    startEngine: () => startEngine(model, settings, (text) => console.log(`${model.id}: ${text}`)),
  };
}

/** A model that is the only one is loaded before the server starts: what is wrong with it shows at once, and nobody waits for it. */
async function loadNow(member: PoolMember, { memory }: ServeSettings): Promise<PoolMember> {
  const engine = await member.startEngine!();
  const { weightBytes } = engine.facts;
  if (memory === null || weightBytes <= memory * 1e9) return { ...member, engine };
  await engine.close();
  throw new Error(`The weights of ${member.model.id} take ${sizeText(weightBytes)}; --memory allows ${sizeText(memory * 1e9)}`);
}

/** On a CPU device weights become float32; a GPU takes them as they are. */
function expectedBytes({ spec }: LoadedModel): number {
  if (Deno.build.os === "darwin") return spec.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return spec.tensors.reduce((sum, { shape }) => sum + FLOAT32_BYTES * shape.reduce((product, size) => product * size, 1), 0);
}
