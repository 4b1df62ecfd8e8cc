import type { Acceptance } from "./acceptance.ts";

/** What one drafter could do for a row. */
export interface DrafterOffer {
  readonly acceptance: Acceptance;
  /** Drafts of the round, at most. */
  readonly maxDrafts: number;
}

/**
 * Of what a row's drafters offer, that which promises most right drafts; null without offers. An offer that was passed over for long gets a turn:
 * a text that a drafter was bad at may have ended.
 */
export function chooseOffer<Offer extends DrafterOffer>(offers: readonly Offer[]): Offer | null {
  let best: Offer | null = null;
  for (const offer of offers) if (best === null || promised(offer) > promised(best)) best = offer;
  let chosen = best;
  for (const offer of offers) if (offer !== best && offer.acceptance.skip()) chosen = offer;
  return chosen;
}

/** Right drafts to hope for: as many as come before the first wrong one. */
function promised({ acceptance: { hope }, maxDrafts }: DrafterOffer): number {
  let [sum, chance] = [0, 1];
  for (let i = 0; i < maxDrafts; i++) sum += chance *= hope;
  return sum;
}
