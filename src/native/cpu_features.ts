/** What the processor has to offer for a library that was built for more than the oldest one. */

/** Features of each instruction set level, as the Linux kernel spells them. */
const LEVELS: Readonly<Record<string, readonly string[]>> = {
  "x86-64-v3": ["avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"],
};

/** @returns the features of `level` that are not among the flags of `/proc/cpuinfo`; empty for a level that is not known. */
export function missingFeatures(level: string, cpuinfo: string): string[] {
  const found = new Set(/^flags\s*:\s*(.*)$/m.exec(cpuinfo)?.[1]?.split(/\s+/) ?? []);
  return (LEVELS[level] ?? []).filter((feature) => !found.has(feature));
}

/** The kernel's description of the processors; null where there is none (macOS). */
export function readCpuinfo(): string | null {
  try {
    return Deno.readTextFileSync("/proc/cpuinfo");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
