import type { SpeculationOptions } from "./messages.ts";
import { NgramDrafter } from "./ngram_drafter.ts";
import { Speculation } from "./speculation.ts";

/** Prompt lookup guesses whole phrases; more than this rarely fits into one step of several rows. */
const NGRAM_DRAFTS = 7;

/** The drafters that the options ask for; none without options. */
export function makeSpeculation(options: SpeculationOptions | undefined): Speculation {
  if (options === undefined) return new Speculation([], { isAdaptive: true });
  const { maxDrafts, isAdaptive = true } = options;
  return new Speculation([new NgramDrafter(maxDrafts ?? NGRAM_DRAFTS)], { isAdaptive });
}
