/** One server at a time, as a process of its own: start, wait until it answers, measure its memory, stop. */
import type { BenchServer } from "../../../src/cli/bench/stream_client.ts";
import { timeStream } from "../../../src/cli/bench/stream_client.ts";
import { tryCommand } from "../../../src/hub/command.ts";
import { TextLineStream } from "../../../src/hub/text_lines.ts";

/** How a server is started. */
export interface Launch {
  readonly name: string;
  /** What its requests say under `model`. */
  readonly model: string;
  readonly command: (port: number) => readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const POLL_MS = 50;
const START_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 5_000;
const TAIL_LINES = 20;

export class ServerProcess implements AsyncDisposable {
  readonly server: BenchServer;
  readonly #child: Deno.ChildProcess;
  readonly #tail: string[] = [];
  readonly #output: Promise<unknown>;
  #exitCode: number | null = null;

  private constructor({ name, model, command, env }: Launch) {
    const port = freePort();
    const [program = "", ...args] = command(port);
    this.server = { name, model, url: `http://127.0.0.1:${port}` };
    this.#child = new Deno.Command(program, { args, env: { ...env }, stdin: "null", stdout: "piped", stderr: "piped" }).spawn();
    this.#output = Promise.all([this.#child.stdout, this.#child.stderr].map((stream) => this.#keepTail(stream)));
    this.#child.status.then(({ code }) => this.#exitCode = code);
  }

  /**
   * Starts the server and gets one token from it.
   * @returns the server, and the milliseconds from its start to that token.
   * @throws {Error} with the server's last lines when it ends or stays silent.
   */
  static async start(launch: Launch, signal: AbortSignal): Promise<{ readonly process: ServerProcess; readonly firstTokenMs: number }> {
    const startedMs = performance.now();
    const process = new ServerProcess(launch);
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(START_TIMEOUT_MS)]);
      await process.#untilListening(limit);
      let firstTokenMs = NaN;
      const body = { messages: [{ role: "user", content: "Say hello." }], max_tokens: 4, temperature: 0 };
      await timeStream(process.server, body, { signal: limit, onFirstText: () => firstTokenMs = performance.now() - startedMs });
      return { process, firstTokenMs };
    } catch (error) {
      await process[Symbol.asyncDispose]();
      throw new Error(`${launch.name} did not start: ${error instanceof Error ? error.message : error}\n${process.#tail.join("\n")}`);
    }
  }

  /** Resident memory in bytes; NaN where the system's `ps` cannot tell. */
  async residentBytes(): Promise<number> {
    const { code, tail } = await tryCommand(["ps", "-o", "rss=", "-p", `${this.#child.pid}`]);
    return code === 0 ? 1024 * Number(tail[0]?.trim()) : NaN;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const kill = (signal: Deno.Signal): void => {
      if (this.#exitCode === null) this.#child.kill(signal);
    };
    kill("SIGTERM");
    const timer = setTimeout(() => kill("SIGKILL"), STOP_TIMEOUT_MS);
    await this.#child.status;
    clearTimeout(timer);
    await this.#output;
  }

  async #untilListening(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#exitCode !== null) throw new Error(`it ended with exit code ${this.#exitCode}`);
      try {
        const response = await fetch(`${this.server.url}/v1/models`, { signal });
        await response.body?.cancel();
        if (response.ok) return;
      } catch (error) {
        // Nobody listens yet.
        if (!(error instanceof TypeError)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async #keepTail(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    for await (const line of stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
      this.#tail.push(line);
      if (this.#tail.length > TAIL_LINES) this.#tail.shift();
    }
  }
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}
