/** The part of `@std/assert` that the tests use, over `node:assert`. To take JSR's own, map `@std/assert` to it in deno.json: nothing else changes. */
import assert from "node:assert/strict";

export class AssertionError extends Error {
  override name = "AssertionError";
}

export { assertValid as assert };
function assertValid(condition: unknown, message = "Expected a truthy value"): asserts condition {
  if (!condition) throw new AssertionError(message);
}

export function assertEquals<T>(actual: T, expected: T, message?: string): void {
  assert.deepStrictEqual(actual, expected, message);
}

export function assertNotEquals<T>(actual: T, expected: T, message?: string): void {
  assert.notDeepStrictEqual(actual, expected, message);
}

export function assertAlmostEquals(actual: number, expected: number, tolerance = 1e-7, message?: string): void {
  if (Object.is(actual, expected) || Math.abs(actual - expected) <= tolerance) return;
  throw new AssertionError(message ?? `Expected ${expected} within ${tolerance}, found ${actual}`);
}

export function assertStringIncludes(actual: string, expected: string, message?: string): void {
  if (!actual.includes(expected)) {
    throw new AssertionError(message ?? `Expected text that includes ${JSON.stringify(expected)}, found ${JSON.stringify(actual)}`);
  }
}

export function assertMatch(actual: string, expected: RegExp, message?: string): void {
  assert.match(actual, expected, message);
}

// deno-lint-ignore no-explicit-any
type ErrorClass<E extends Error> = new (...args: any[]) => E;

function checkError<E extends Error>(error: unknown, errorClass?: ErrorClass<E>, includes?: string): E {
  if (errorClass && !(error instanceof errorClass)) throw new AssertionError(`Expected ${errorClass.name}, found ${error}`);
  if (includes !== undefined) assertStringIncludes((error as Error).message, includes);
  return error as E;
}

export function assertThrows<E extends Error = Error>(body: () => unknown, errorClass?: ErrorClass<E>, includes?: string): E {
  try {
    body();
  } catch (error) {
    return checkError(error, errorClass, includes);
  }
  throw new AssertionError("Expected the function to throw");
}

export async function assertRejects<E extends Error = Error>(
  body: () => Promise<unknown>,
  errorClass?: ErrorClass<E>,
  includes?: string,
): Promise<E> {
  try {
    await body();
  } catch (error) {
    return checkError(error, errorClass, includes);
  }
  throw new AssertionError("Expected the promise to be rejected");
}
