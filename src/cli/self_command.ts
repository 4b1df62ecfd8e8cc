import { join } from "node:path";

/** Started as a program, never imported: it is what imports all this. */
const MAIN = join(import.meta.dirname ?? ".", "..", "..", "main.ts");

/** The command line that starts this very program once more, with other arguments. */
export function selfCommand(args: readonly string[]): { readonly program: string; readonly args: string[] } {
  const source = Deno.build.standalone ? [] : ["run", "-A", "--no-check", MAIN];
  return { program: Deno.execPath(), args: [...source, ...args] };
}
