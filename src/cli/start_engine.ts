import { EngineClient } from "../engine/client.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { chooseDrafter, type DraftSettings } from "./choose_drafter.ts";

/** What a sequence may hold when nothing is said: long contexts cost memory that nobody may want. */
export const DEFAULT_MAX_CONTEXT = 8192;

export type EngineSettings =
  & Pick<ServeSettings, "maxBatch" | "maxContext" | "maxQueue" | "prefillChunk" | "prefixCacheMb" | "batchInvariant">
  & DraftSettings
  & { readonly libraryPath: string };

/** Loads a model into an engine of its own. `say` is told what it took. @throws {EngineError} when it cannot be loaded. */
export async function startEngine(model: LoadedModel, settings: EngineSettings, say: (text: string) => void): Promise<EngineClient> {
  const { libraryPath, maxBatch, maxQueue, prefillChunk, batchInvariant: isBatchInvariant } = settings;
  const maxContext = Math.min(settings.maxContext ?? DEFAULT_MAX_CONTEXT, model.maxContext);
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
    isBatchInvariant,
    ...(speculation === null ? {} : { speculation }),
  });
  const weights = `${(engine.facts.weightBytes / 1e6).toFixed(0)} MB of weights`;
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const drafters = speculation === null ? "no drafts" : `drafts by ${engine.facts.draftKinds?.join(" or ")}`;
  say(`engine on ${engine.facts.device}: ${weights} in ${seconds} s, ${maxBatch} rows of up to ${maxContext} tokens, ${drafters}`);
  return engine;
}
