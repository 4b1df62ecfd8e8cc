/** Variables that the native library reads, and takes for absent when it does not know their value. */

/** As the library has it. */
const MAX_THREADS = 64;

/** @returns a line for each variable whose value says nothing to the library. */
export function environmentWarnings(get: (name: string) => string | undefined = (name) => Deno.env.get(name)): string[] {
  const warnings: string[] = [];
  const expect = (name: string, isKnown: (value: string) => boolean, expected: string): void => {
    const value = get(name);
    if (value && !isKnown(value)) warnings.push(`${name} is ${JSON.stringify(value)}, expected ${expected}; it counts as not set`);
  };
  expect("ROWLOCK_CPU_KERNELS", (value) => value === "mlx", "mlx");
  expect("ROWLOCK_CPU_ISA", (value) => value === "avx2", "avx2");
  const threads = get("ROWLOCK_THREADS");
  if (threads && /^\d+$/.test(threads) && Number(threads) > MAX_THREADS) {
    return [...warnings, `ROWLOCK_THREADS is "${threads}", expected a whole number from 1 to ${MAX_THREADS}; ${MAX_THREADS} are used`];
  }
  expect("ROWLOCK_THREADS", (value) => /^\d+$/.test(value) && Number(value) > 0, `a whole number from 1 to ${MAX_THREADS}`);
  return warnings;
}
