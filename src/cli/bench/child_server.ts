/** A server of this program as a child process. */
import { TextLineStream } from "../../hub/text_lines.ts";
import type { LogLevel } from "../request_log.ts";
import { selfCommand } from "../self_command.ts";

export interface ChildServer {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts `serve` on a free port and waits until it listens.
 * @throws {Error} when it ends before; its errors have been shown by then.
 */
export async function startChildServer(flags: readonly string[], logLevel: LogLevel = "warn"): Promise<ChildServer> {
  const { program, args } = selfCommand(["serve", "--port", "0", "--log-level", logLevel, ...flags]);
  const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "inherit" }).spawn();
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
