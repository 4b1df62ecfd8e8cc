/** A Rowlock server of this checkout as a child process. */
import { fileURLToPath } from "node:url";
import { TextLineStream } from "../../src/hub/text_lines.ts";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));

export interface ChildServer {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts `main.ts serve` on a free port and waits until it listens.
 * @throws {Error} when it ends before; its output has been shown by then.
 */
export async function startChildServer(flags: readonly string[], env: Readonly<Record<string, string>>): Promise<ChildServer> {
  const args = ["run", "-A", MAIN, "serve", "--port", "0", "--log-level", "warn", ...flags];
  const child = new Deno.Command(Deno.execPath(), { args, env: { ...env }, stdin: "null", stdout: "piped", stderr: "inherit" }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream()).getReader();
  for (let line = await lines.read(); !line.done; line = await lines.read()) {
    const url = /listening on (http:\/\/\S+)/.exec(line.value)?.[1];
    if (url === undefined) continue;
    return {
      url,
      async stop(): Promise<void> {
        child.kill("SIGTERM");
        await child.status;
        await lines.cancel();
      },
    };
  }
  throw new Error(`The server ended with exit code ${(await child.status).code} before it listened`);
}
