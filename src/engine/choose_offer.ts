import type { Acceptance } from "./acceptance.ts";

/** What one drafter could do for a row. */
export interface DrafterOffer {
  readonly acceptance: Acceptance;
}

/**
 * Of what a row's drafters offer, that which `promise` values most; null without offers. An offer that was passed over for long gets a turn: a
 * text that a drafter was bad at may have ended.
 */
export function chooseOffer<Offer extends DrafterOffer>(offers: readonly Offer[], promise: (offer: Offer) => number): Offer | null {
  if (offers.length < 2) return offers[0] ?? null;
  const promises = offers.map(promise);
  const best = offers[promises.indexOf(Math.max(...promises))] ?? null;
  let chosen = best;
  for (const offer of offers) {
    if (offer === best) continue;
    offer.acceptance.skip(1);
    if (offer.acceptance.isDue) chosen = offer;
  }
  return chosen;
}
