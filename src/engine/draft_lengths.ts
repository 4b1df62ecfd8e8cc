/** One row's part in the choice. */
export interface DraftOffer {
  /** Drafts that it may have, at most. */
  readonly maxDrafts: number;
  /** The chance that draft `place` of the round (from 0) is right when all before it are. */
  readonly chance: (place: number) => number;
}

/** A round has to promise so much more than a plain step: estimates are not exact, and a plain step is sure. */
const MIN_GAIN = 1.05;

/**
 * Numbers of drafts, one for each offer, that bring the most tokens per millisecond; all 0 when plain decoding does.
 *
 * Drafts are taken in the order of their chance to be accepted, whoever's they are, so each row gets its own length; `stepMs` says what a
 * step costs in which the rows have so many drafts each, drafting included.
 *
 * @param numRows rows that decode in the step, with drafts or without.
 * @param maxTotal drafts of all rows together, at most.
 */
export function chooseDraftLengths(
  offers: readonly DraftOffer[],
  numRows: number,
  maxTotal: number,
  stepMs: (lengths: readonly number[]) => number,
): number[] {
  const lengths = offers.map(() => 0);
  const plainRate = numRows / stepMs(lengths);
  let best = { rate: MIN_GAIN * plainRate, lengths: [...lengths] };
  const chances = offers.map(({ chance }) => chance(0));
  let tokens = numRows;
  for (let total = 1; total <= maxTotal; total++) {
    const row = likeliest(offers, lengths, chances);
    if (row < 0) break;
    tokens += chances[row] ?? 0;
    const length = lengths[row] = (lengths[row] ?? 0) + 1;
    chances[row] = (chances[row] ?? 0) * (offers[row]?.chance(length) ?? 0);
    const rate = tokens / stepMs(lengths);
    if (rate > best.rate) best = { rate, lengths: [...lengths] };
  }
  return best.lengths;
}

/** The row whose next draft has the best chance; -1 when nobody has one left. */
function likeliest(offers: readonly DraftOffer[], lengths: readonly number[], chances: readonly number[]): number {
  let best = -1;
  for (const [row, { maxDrafts }] of offers.entries()) {
    if ((lengths[row] ?? 0) < maxDrafts && (best < 0 || (chances[row] ?? 0) > (chances[best] ?? 0))) best = row;
  }
  return best;
}
