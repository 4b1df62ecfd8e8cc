/** A χ² statistic brought to a standard normal z, so that tests of any size share one threshold. */
export interface ChiSquared {
  readonly z: number;
  readonly degrees: number;
}

/**
 * False-alarm rate of one test: a perfect sampler with another random stream would exceed this z once in 3.5 million tests. The draws are fixed
 * by their seeds, so a test that passed once keeps passing until the sampler changes.
 */
export const CRITICAL_Z = 5;

/** Wilson and Hilferty's normal approximation. */
function toZ(statistic: number, degrees: number): ChiSquared {
  if (degrees === 0) return { z: 0, degrees };
  const spread = 2 / (9 * degrees);
  return { z: (Math.cbrt(statistic / degrees) - (1 - spread)) / Math.sqrt(spread), degrees };
}

/** Counts against expected counts; cells that expect fewer than `least` are added up to one. */
export function goodnessOfFit(counts: ArrayLike<number>, expected: ArrayLike<number>, least = 8): ChiSquared {
  let statistic = 0, degrees = -1, rareCount = 0, rareExpected = 0;
  for (let i = 0; i < expected.length; i++) {
    const mean = expected[i] ?? 0, count = counts[i] ?? 0;
    if (mean < least) {
      rareCount += count;
      rareExpected += mean;
      continue;
    }
    statistic += (count - mean) ** 2 / mean;
    degrees++;
  }
  if (rareExpected > 1) {
    statistic += (rareCount - rareExpected) ** 2 / rareExpected;
    degrees++;
  }
  return toZ(statistic, Math.max(degrees, 0));
}

/** Independence of two categories, 0 … numCells - 1 each, from their pairs. */
export function independence(pairs: Iterable<readonly [number, number]>, numCells: number): ChiSquared {
  const table = new Float64Array(numCells * numCells), rows = new Float64Array(numCells), columns = new Float64Array(numCells);
  let total = 0;
  for (const [row, column] of pairs) {
    table[row * numCells + column] = (table[row * numCells + column] ?? 0) + 1;
    rows[row] = (rows[row] ?? 0) + 1;
    columns[column] = (columns[column] ?? 0) + 1;
    total++;
  }
  let statistic = 0;
  for (let row = 0; row < numCells; row++) {
    for (let column = 0; column < numCells; column++) {
      const mean = ((rows[row] ?? 0) * (columns[column] ?? 0)) / total;
      if (mean > 0) statistic += ((table[row * numCells + column] ?? 0) - mean) ** 2 / mean;
    }
  }
  return toZ(statistic, (numCells - 1) ** 2);
}
