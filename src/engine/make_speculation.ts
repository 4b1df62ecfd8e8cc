import type { ModelSpec } from "../native/model_spec.ts";
import type { ModelBackend } from "./backend.ts";
import type { Drafter } from "./drafter.ts";
import type { EngineOptions } from "./messages.ts";
import { ModelDrafter } from "./model_drafter.ts";
import { NgramDrafter } from "./ngram_drafter.ts";
import { Speculation, type SpeculationSettings } from "./speculation.ts";

/** Prompt lookup guesses whole phrases; more than this rarely fits into one step of several rows. */
const NGRAM_DRAFTS = 7;
/**
 * On a CPU, products with up to so many rows are computed row by row (`MAX_SKINNY_ROWS` in `ffi/src/cpu/sgemm.c`): a token's logits are the same
 * bits whatever stands beside it. Steps with drafts stay within it, so that their text is that of plain decoding to the last bit.
 */
export const MAX_EXACT_ROWS = 48;

type Options = Pick<EngineOptions, "speculation" | "model" | "isBatchInvariant">;

/** The drafters that the options ask for: the model's own one first, prompt lookup always; none without options. */
export function makeSpeculation(
  { speculation, model, isBatchInvariant }: Options,
  backend: Pick<ModelBackend, "drafter" | "facts">,
): Speculation {
  if (speculation === undefined) return new Speculation([], { isAdaptive: true });
  const { maxDrafts, isAdaptive = true, isCoupled = true } = speculation;
  const drafters: Drafter[] = [new NgramDrafter(maxDrafts ?? NGRAM_DRAFTS)];
  const { drafter, facts } = backend;
  if (drafter !== null) {
    // A block drafter's weights know blocks of one size.
    const most = drafter.maskTokenId === null
      ? maxDrafts ?? drafter.numDraftTokens
      : Math.min(maxDrafts ?? Infinity, drafter.numDraftTokens);
    drafters.unshift(new ModelDrafter(drafter, most, facts.vocabSize, isCoupled));
  }
  return new Speculation(drafters, { isAdaptive, ...(isBatchInvariant === true ? {} : exactLimits(model)) });
}

/** In attention the query heads that share keys are rows of one product too. */
function exactLimits({ config }: ModelSpec): Pick<SpeculationSettings, "maxStepTokens" | "maxRowTokens"> {
  const headsPerKey = Number(config["num_attention_heads"] ?? 1) /
    Number(config["num_key_value_heads"] ?? config["num_attention_heads"] ?? 1);
  return { maxStepTokens: MAX_EXACT_ROWS, maxRowTokens: Math.max(1, Math.floor(MAX_EXACT_ROWS / headsPerKey)) };
}
