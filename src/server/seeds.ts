/** Seeds of rows: random for a request without one, derived for the further choices of a request. */
const MASK = 2n ** 64n - 1n;
const GOLDEN_GAMMA = 0x9e3779b97f4a7c15n;

/** 64 random bits. */
export function randomSeed(): bigint {
  return crypto.getRandomValues(new BigUint64Array(1))[0]!;
}

/**
 * The seed of a request as the sampler takes it, 0 … 2^64-1.
 * @returns null when the client asked for a random one (absent, null or -1).
 */
export function canonicalSeed(seed: number | bigint | null | undefined): bigint | null {
  if (seed === undefined || seed === null) return null;
  const exact = BigInt(seed);
  return exact === -1n ? null : BigInt.asUintN(64, exact);
}

/**
 * The seed of choice `index` of a request: choice 0 keeps the request's own, so that `n: 1` and the first of `n: 4` give the same text;
 * choice i takes the i-th output of SplitMix64 that starts at the seed. Part of the product: a change gives users other texts.
 */
export function choiceSeed(seed: bigint, index: number): bigint {
  if (index === 0) return seed;
  let z = (seed + BigInt(index) * GOLDEN_GAMMA) & MASK;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return z ^ (z >> 31n);
}
