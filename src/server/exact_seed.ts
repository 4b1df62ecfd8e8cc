/** The seed of a request as it was written: JSON.parse rounds what a double cannot hold. */

/** No seed needs more; a body can have millions of digits. */
export const MAX_SEED_CHARS = 64;
/** Beyond this no seed is in range, however it is rounded. */
const LIMIT = 2 ** 64;

/**
 * @param literal a number as JSON writes it; its beginning when it has more than `MAX_SEED_CHARS` characters.
 * @param rounded what JSON.parse made of it.
 * @returns its value without loss, a bigint where a number would lose digits; what is far out of range as it is; what is no integer, and
 * would become one, as text.
 */
export function exactSeed(literal: string, rounded: number): number | bigint | string {
  if (Math.abs(rounded) > LIMIT) return rounded;
  if (literal.length > MAX_SEED_CHARS) return `${literal.slice(0, 32)}…`;
  const [, sign, whole = "", fraction = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal)!;
  const digits = `${whole}${fraction}`.replace(/0+$/, "");
  // The value is digits · 10^exponent, and the limit above keeps the exponent small.
  const exponent = Number(power) + whole.length - digits.length;
  if (digits === "") return 0;
  if (exponent < 0) return Number.isInteger(rounded) ? literal : rounded;
  const value = BigInt(digits) * 10n ** BigInt(exponent) * (sign === "-" ? -1n : 1n);
  return Number.isSafeInteger(rounded) ? rounded : value;
}
