import { EngineClient } from "../engine/client.ts";
import { type Engine, EngineError } from "../engine/engine.ts";
import type { EngineFacts, EngineOptions, PrefixDiskOptions } from "../engine/messages.ts";
import { diskMemoryBytes } from "../engine/prefix_disk.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { chooseDrafter, type DraftSettings } from "./choose_drafter.ts";
import { memoryShortage } from "./least_memory.ts";
import { sizeText } from "./size_text.ts";

/** What a sequence may hold when nothing is said: long contexts cost memory that nobody may want. */
export const DEFAULT_MAX_CONTEXT = 8192;

export type EngineSettings =
  & Pick<ServeSettings, "maxBatch" | "maxContext" | "maxQueue" | "prefillChunk" | "prefixCacheMb" | "batchInvariant">
  & DraftSettings
  & {
    readonly libraryPath: string;
    /** What the engine may take: weights, KV, prefix pages and a step's temporaries. */
    readonly memoryBytes: number;
    /** What `--memory` has to hold beside it. @default the program alone */
    readonly programBytes?: number;
    /** null: prefixes are kept in memory alone. */
    readonly prefixDisk: PrefixDiskOptions | null;
  };

/** Loads a model into an engine of its own. `say` is told what it took. @throws {EngineError} when it cannot be loaded. */
export async function startEngine(loaded: LoadedModel, settings: EngineSettings, say: (text: string) => void): Promise<EngineClient> {
  const { libraryPath, maxBatch, maxQueue, prefillChunk, batchInvariant: isBatchInvariant } = settings;
  const maxContext = Math.min(settings.maxContext ?? DEFAULT_MAX_CONTEXT, loaded.maxContext);
  const model = withServedContext(loaded, maxContext);
  const speculation = chooseDrafter(model, settings);
  const startedMs = performance.now();
  const engine = await startClient({
    libraryPath,
    model: model.spec,
    maxBatch,
    maxContext,
    maxQueue,
    prefillChunk,
    prefixCacheBytes: settings.prefixCacheMb * 1e6,
    memoryBytes: settings.memoryBytes,
    isBatchInvariant,
    ...(settings.prefixDisk === null ? {} : { prefixDisk: settings.prefixDisk }),
    ...(speculation === null ? {} : { speculation }),
  });
  const { leastBytes = 0, weightBytes } = engine.facts;
  if (leastBytes > settings.memoryBytes) {
    await engine.close();
    throw memoryShortage(loaded.id, { weightBytes, leastBytes }, settings.memoryBytes, settings.programBytes);
  }
  const note = contextNote(loaded, settings);
  if (note !== null) say(note);
  const weights = `${sizeText(engine.facts.weightBytes)} of weights`;
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const drafters = speculation === null ? "no drafts" : `drafts by ${engine.facts.draftKinds?.join(" or ")}`;
  warnOfDraftFailures(engine, say);
  const { device, maxRowTokens = maxContext } = engine.facts;
  say(`engine on ${device}: ${weights} in ${seconds} s, ${maxBatch} rows of up to ${maxRowTokens} tokens, ${drafters}`);
  say(describeRoom(engine.facts, settings));
  return engine;
}

/** Why fewer tokens are served than were asked for; null when they are not. */
export function contextNote(model: Pick<LoadedModel, "maxContext">, { maxContext }: Pick<ServeSettings, "maxContext">): string | null {
  if (maxContext === null || maxContext <= model.maxContext) return null;
  return `--max-context is ${maxContext}, and the model holds ${model.maxContext}: requests of up to ${model.maxContext} tokens are served`;
}

/** Errors of the library begin with the function that failed, which says nothing to people. */
async function startClient(options: EngineOptions): Promise<EngineClient> {
  try {
    return await EngineClient.start(options);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    throw new EngineError(error.code, error.message.replace(/^rl_\w+ failed \(\w+\): /, ""));
  }
}

/** Some scalings of rotary positions (longrope, dynamic) depend on how long sequences may get; the drafters' with the model's. */
function withServedContext(model: LoadedModel, maxContext: number): LoadedModel {
  return { ...model, spec: { ...model.spec, config: { ...model.spec.config, served_context: maxContext } } };
}

/** How the memory is shared when no other model is loaded. */
function describeRoom(facts: EngineFacts, { memoryBytes, prefixCacheMb, prefixDisk }: EngineSettings): string {
  const { weightBytes, kvBytesPerToken, maxRowTokens = 0 } = facts;
  const room = Math.max(0, memoryBytes - weightBytes - (prefixDisk === null ? 0 : diskMemoryBytes(facts)));
  const numTokens = Math.floor(room / Math.max(1, kvBytesPerToken)).toLocaleString("en");
  const prefixes = prefixCacheMb === 0 ? "" : `, prefixes take up to ${prefixCacheMb} MB of what rows leave`;
  const disk = prefixDisk === null ? "" : `, and ${sizeText(prefixDisk.maxBytes)} in ${prefixDisk.folder}`;
  return `room for KV and a step: ${sizeText(room)}, about ${numTokens} tokens, one request at most ${maxRowTokens}${prefixes}${disk}`;
}

/** The first failure of a drafter is told, all are counted in /metrics: requests do not notice them but for their speed. */
export function warnOfDraftFailures(engine: Pick<Engine, "onStep">, say: (text: string) => void): void {
  const stop = engine.onStep(({ draftFailures }) => {
    if (draftFailures === undefined) return;
    stop();
    say(`a drafter failed, its requests go on without drafts: ${draftFailures.message}`);
  });
}
