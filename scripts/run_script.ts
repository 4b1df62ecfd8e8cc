/**
 * What a script with `--help` does: prints its help, or runs and ends with exit code 1 and one line when something is wrong.
 * @param name stands in front of that line.
 */
export async function runScript(name: string, help: string, main: (args: string[]) => Promise<void>): Promise<void> {
  if (Deno.args.includes("--help")) return console.log(help);
  try {
    await main(Deno.args);
  } catch (error) {
    console.error(`${name}: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}
