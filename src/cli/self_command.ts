import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));

/** The command line that starts this very program once more, with other arguments. */
export function selfCommand(args: readonly string[]): { readonly program: string; readonly args: string[] } {
  const source = Deno.build.standalone ? [] : ["run", "-A", "--no-check", MAIN];
  return { program: Deno.execPath(), args: [...source, ...args] };
}
