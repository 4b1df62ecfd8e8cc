/**
 * `deno task bench:http`: what HTTP, JSON, detokenizing and streaming cost the server per token, and of a decode step. The engine is a clock, so that all
 * of the server's CPU time is the protocol's. Arguments: `--rows N`, `--tokens N` (of each answer), `--step-ms N`, `--model PATH` (for its tokenizer).
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { TextLineStream } from "../../src/hub/text_lines.ts";
import { ensureModel } from "../setup.ts";

const SERVER = fileURLToPath(new URL("./http_bench_server.ts", import.meta.url));
/** A decode step of 16 rows of the default model on two cores. */
const DECODE_STEP_MS = 35;

interface BenchOptions {
  readonly rows: number;
  readonly tokens: number;
  readonly stepMs: number;
  readonly modelPath: string;
}

interface Usage {
  readonly cpuMs: number;
  readonly steps: number;
}

class BenchServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #lines: ReadableStreamDefaultReader<string>;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  url = "";

  private constructor({ rows, stepMs, modelPath }: BenchOptions) {
    const args = ["run", "-A", SERVER, modelPath, `${rows}`, `${stepMs}`];
    this.#child = new Deno.Command(Deno.execPath(), { args, stdin: "piped", stdout: "piped", stderr: "inherit" }).spawn();
    this.#lines = this.#child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream()).getReader();
    this.#input = this.#child.stdin.getWriter();
  }

  static async start(options: BenchOptions): Promise<BenchServer> {
    const server = new BenchServer(options);
    server.url = await server.#line();
    return server;
  }

  async usage(): Promise<Usage> {
    await this.#input.write(new TextEncoder().encode("\n"));
    return JSON.parse(await this.#line());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#input.close();
    await this.#child.status;
    await this.#lines.cancel();
  }

  async #line(): Promise<string> {
    const { value } = await this.#lines.read();
    if (value === undefined) throw new Error(`The server ended with exit code ${(await this.#child.status).code}`);
    return value;
  }
}

/** Reads a whole stream. @returns its number of events with text. */
async function readStream(url: string, maxTokens: number): Promise<number> {
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hi" }], stream: true, max_tokens: maxTokens, ignore_eos: true });
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body });
  return (await response.text()).split('"delta":{"content":"').length - 1;
}

async function runAll(server: BenchServer, { rows, tokens }: BenchOptions): Promise<Usage & { readonly numEvents: number }> {
  const before = await server.usage();
  const counts = await Promise.all(Array.from({ length: rows }, () => readStream(server.url, tokens)));
  const after = await server.usage();
  return {
    cpuMs: after.cpuMs - before.cpuMs,
    steps: after.steps - before.steps,
    numEvents: counts.reduce((sum, count) => sum + count, 0),
  };
}

async function bench(options: BenchOptions): Promise<void> {
  await using server = await BenchServer.start(options);
  await runAll(server, options);
  const idleBefore = await server.usage();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const idleMs = (await server.usage()).cpuMs - idleBefore.cpuMs;
  const { cpuMs, numEvents, steps } = await runAll(server, options);
  const numTokens = options.rows * options.tokens;
  const perStepMs = cpuMs / steps;
  console.log(
    `${options.rows} rows, ${numTokens} tokens in ${numEvents} events, ${steps} steps of ${options.stepMs} ms (idle: ${
      idleMs.toFixed(1)
    } ms a second)\n` +
      `${(1000 * cpuMs / numTokens).toFixed(1)} µs of CPU time per token, all threads of the server\n` +
      `${perStepMs.toFixed(2)} ms per step: ${(100 * perStepMs / DECODE_STEP_MS).toFixed(1)} % of a decode step of ${DECODE_STEP_MS} ms`,
  );
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      rows: { type: "string", default: "16" },
      tokens: { type: "string", default: "300" },
      "step-ms": { type: "string", default: "20" },
      model: { type: "string" },
    },
  });
  const modelPath = values.model ?? await ensureModel(new TerminalProgress());
  await bench({ rows: Number(values.rows), tokens: Number(values.tokens), stepMs: Number(values["step-ms"]), modelPath });
}
