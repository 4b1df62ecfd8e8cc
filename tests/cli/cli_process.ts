/** `main.ts` as a process of its own, as users run it. */
import { fileURLToPath } from "node:url";
import { TextLineStream } from "../../src/hub/text_lines.ts";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));

/** A tiny checkpoint with weights and without a tokenizer: it takes and gives token ids. */
export const TINY_MODEL = fileURLToPath(new URL("../fixtures/golden/llama-tied-f32", import.meta.url));

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line that ends by itself. */
export async function runMain(...args: string[]): Promise<CliResult> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), mainOptions(args)).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** A server that runs; disposing it kills the process if it is still there. */
export class ServerProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #log: Promise<string>;
  readonly #stdout: Promise<void>;

  /** @param output what the process has printed before it listened. */
  private constructor(
    child: Deno.ChildProcess,
    readonly url: string,
    readonly output: string,
    log: Promise<string>,
    stdout: Promise<void>,
  ) {
    this.#child = child;
    this.#log = log;
    this.#stdout = stdout;
  }

  /** @throws {Error} with the process's errors when it ends before it listens. */
  static async start(...args: string[]): Promise<ServerProcess> {
    const child = new Deno.Command(Deno.execPath(), {
      ...mainOptions(["serve", ...(args.includes("--port") ? [] : ["--port", "0"]), ...args]),
      stdin: "null",
    }).spawn();
    const log = new Response(child.stderr).text();
    const listening = Promise.withResolvers<string | null>();
    let output = "";
    const stdout = readLines(child.stdout, (line) => {
      output += `${line}\n`;
      const url = /^listening on (\S+)$/.exec(line)?.[1];
      if (url !== undefined) listening.resolve(url);
    }).finally(() => listening.resolve(null));
    const url = await listening.promise;
    if (url !== null) return new ServerProcess(child, url, output, log, stdout);
    throw new Error(`The server ended with exit code ${(await child.status).code}: ${await log}`);
  }

  get pid(): number {
    return this.#child.pid;
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Waits for the end of the process. */
  async ended(): Promise<{ readonly code: number; readonly signal: Deno.Signal | null; readonly log: string }> {
    const { code, signal } = await this.#child.status;
    await this.#stdout;
    return { code, signal, log: await this.#log };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch (error) {
      // It has ended already.
      if (!(error instanceof TypeError)) throw error;
    }
    await this.ended();
  }
}

function mainOptions(args: string[]): Deno.CommandOptions {
  return { args: ["run", "-A", "--no-check", MAIN, ...args], env: { NO_COLOR: "1" }, stdout: "piped", stderr: "piped" };
}

async function readLines(stream: ReadableStream<Uint8Array<ArrayBuffer>>, onLine: (line: string) => void): Promise<void> {
  for await (const line of stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) onLine(line);
}
