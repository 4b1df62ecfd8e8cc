import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Runs one test file, by its path in the checkout, and shows what it says. @returns whether its tests have passed. */
export async function runTestFile(path: string, env: Readonly<Record<string, string>>): Promise<boolean> {
  const options: Deno.CommandOptions = {
    args: ["test", "-A", path],
    cwd: ROOT,
    env: { ...env },
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  };
  return (await new Deno.Command(Deno.execPath(), options).spawn().status).code === 0;
}
