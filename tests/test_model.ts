/** The default model, where setup has put it: tests that need a real vocabulary or real weights are skipped without it. */

const FILE = "SmolLM2-135M-Instruct.Q4_1.gguf";

function candidates(): string[] {
  const named = Deno.env.get("ROWLOCK_TEST_MODEL");
  if (named) return [named];
  const home = Deno.env.get("HOME") ?? Deno.env.get("USERPROFILE") ?? ".";
  const cache = Deno.env.get("ROWLOCK_CACHE") ?? `${Deno.env.get("XDG_CACHE_HOME") ?? `${home}/.cache`}/rowlock`;
  return [`${cache}/models/${FILE}`];
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** null: the model is not on this machine. A path given by ROWLOCK_TEST_MODEL has to exist. */
export function findTestModel(): string | null {
  const found = candidates().find(isFile) ?? null;
  const named = Deno.env.get("ROWLOCK_TEST_MODEL");
  if (found === null && named) throw new Error(`ROWLOCK_TEST_MODEL is ${named}, which is no file`);
  return found;
}

/** A test with the default model's path; skipped where the model is missing. */
export function modelTest(name: string, body: (path: string) => void | Promise<void>): void {
  const path = findTestModel();
  Deno.test({ name, ignore: path === null, fn: () => body(path!) });
}
