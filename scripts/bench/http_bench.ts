/**
 * `deno task bench:http`: what HTTP, JSON, detokenizing, streaming and the engine's messages cost the server per token, and of a decode step.
 * Arguments: `--rows N`, `--tokens N` (of each answer), `--model PATH`. The model makes the steps, and the time is that of the main thread, which does
 * all of it and nothing else. With `--step-ms N` a clock takes the model's place, and the time is that of all threads.
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { TextLineStream } from "../../src/hub/text_lines.ts";
import { ensureModel } from "../setup.ts";

const SERVER = fileURLToPath(new URL("./http_bench_server.ts", import.meta.url));
interface BenchOptions {
  readonly rows: number;
  readonly tokens: number;
  readonly stepMs: number;
  readonly modelPath: string;
}

interface Usage {
  readonly cpuMs: number;
  readonly steps: number;
  readonly atMs: number;
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

  /** @param numTokens the server reads so many tokens a row itself before it answers. */
  async usage(numTokens = 0): Promise<Usage> {
    await this.#input.write(new TextEncoder().encode(`${numTokens}\n`));
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
    atMs: after.atMs - before.atMs,
    numEvents: counts.reduce((sum, count) => sum + count, 0),
  };
}

async function bench(options: BenchOptions): Promise<void> {
  await using server = await BenchServer.start(options);
  await runAll(server, options);
  const [messages, served] = [await readAlone(server, options), await runAll(server, options)];
  const numTokens = options.rows * options.tokens;
  const stepMs = served.atMs / served.steps;
  const line = (name: string, perStepMs: number): string =>
    `${name}: ${perStepMs.toFixed(2)} ms a step, ${(100 * perStepMs / stepMs).toFixed(1)} % of it, ${
      (1000 * perStepMs / options.rows).toFixed(1)
    } µs a token`;
  const [messagesMs, servedMs] = [messages.cpuMs / messages.steps, served.cpuMs / served.steps];
  console.log(
    `${options.rows} rows, ${numTokens} tokens in ${served.numEvents} events, ${served.steps} steps of ${
      stepMs.toFixed(1)
    } ms. CPU time of ${options.stepMs > 0 ? "all threads" : "the main thread"}:\n${line("HTTP and protocol", servedMs - messagesMs)}\n${
      line("the engine's messages", messagesMs)
    }`,
  );
}

/** The same steps without clients. */
async function readAlone(server: BenchServer, { tokens }: BenchOptions): Promise<Usage> {
  const before = await server.usage();
  const after = await server.usage(tokens);
  return { cpuMs: after.cpuMs - before.cpuMs, steps: after.steps - before.steps, atMs: after.atMs - before.atMs };
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      rows: { type: "string", default: "16" },
      tokens: { type: "string", default: "300" },
      "step-ms": { type: "string", default: "0" },
      model: { type: "string" },
    },
  });
  const modelPath = values.model ?? await ensureModel(new TerminalProgress());
  await bench({ rows: Number(values.rows), tokens: Number(values.tokens), stepMs: Number(values["step-ms"]), modelPath });
}
