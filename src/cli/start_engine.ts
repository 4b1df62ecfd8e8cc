import { EngineClient } from "../engine/client.ts";
import type { Engine } from "../engine/engine.ts";
import type { EngineFacts, PrefixDiskOptions } from "../engine/messages.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { chooseDrafter, type DraftSettings } from "./choose_drafter.ts";
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
  const engine = await EngineClient.start({
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
  const weights = `${(engine.facts.weightBytes / 1e6).toFixed(0)} MB of weights`;
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const drafters = speculation === null ? "no drafts" : `drafts by ${engine.facts.draftKinds?.join(" or ")}`;
  warnOfDraftFailures(engine, say);
  say(`engine on ${engine.facts.device}: ${weights} in ${seconds} s, ${maxBatch} rows of up to ${maxContext} tokens, ${drafters}`);
  say(describeRoom(engine.facts, settings));
  return engine;
}

/** Some scalings of rotary positions (longrope, dynamic) depend on how long sequences may get; the drafters' with the model's. */
function withServedContext(model: LoadedModel, maxContext: number): LoadedModel {
  return { ...model, spec: { ...model.spec, config: { ...model.spec.config, served_context: maxContext } } };
}

/** How the memory is shared when no other model is loaded. */
function describeRoom(
  { weightBytes, kvBytesPerToken, maxRowTokens = 0 }: EngineFacts,
  { memoryBytes, prefixCacheMb }: EngineSettings,
): string {
  const room = Math.max(0, memoryBytes - weightBytes);
  const numTokens = Math.floor(room / Math.max(1, kvBytesPerToken)).toLocaleString("en");
  const prefixes = prefixCacheMb === 0 ? "" : `, prefixes take up to ${prefixCacheMb} MB of what rows leave`;
  return `room for KV and a step: ${sizeText(room)}, about ${numTokens} tokens, one request at most ${maxRowTokens}${prefixes}`;
}

/** The first failure of a drafter is told, all are counted in /metrics: requests do not notice them but for their speed. */
export function warnOfDraftFailures(engine: Pick<Engine, "onStep">, say: (text: string) => void): void {
  const stop = engine.onStep(({ draftFailures }) => {
    if (draftFailures === undefined) return;
    stop();
    say(`a drafter failed, its requests go on without drafts: ${draftFailures.message}`);
  });
}
