/** One fault that somebody could make in one line, and the test file that has to notice it. */
export interface Mutant {
  /** Path from the checkout's root. */
  readonly file: string;
  /** Text that occurs exactly once in the file, within one line. */
  readonly find: string;
  /** Empty: the text is removed. */
  readonly replace: string;
  /** A test file of Deno's, or a C test program's source. */
  readonly test: string;
}

/** The file's text with the fault in it. @throws {Error} when the text to find is not there exactly once. */
export function applyMutant(text: string, mutant: Mutant): string {
  const parts = text.split(mutant.find);
  if (parts.length === 2) return parts.join(mutant.replace);
  throw new Error(`${mutant.file} has ${JSON.stringify(mutant.find)} ${parts.length - 1} times, expected once`);
}

/** How a fault is shown: `src/engine/rows.ts: column.move(from, to); → nothing`. */
export function describeMutant({ file, find, replace }: Mutant): string {
  return `${file}: ${find} → ${replace === "" ? "nothing" : replace}`;
}
