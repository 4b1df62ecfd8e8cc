/**
 * `deno task bench:http`: what HTTP, JSON, detokenizing, streaming and the engine's messages cost the server per token, and of a decode step.
 * Arguments: `--rows N`, `--tokens N` (of each answer), `--model PATH`. The model makes the steps, and the time is that of the main thread, which does
 * all of it and nothing else; `--of-ms N` is the step that shares are of, where the one that was measured is slow because the machine is busy. With
 * `--step-ms N` a clock takes the model's place, and the time is that of all threads. Beside it stands what Deno's HTTP server takes for events of ready
 * bytes.
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
  /** null: what is measured. */
  readonly ofMs: number | null;
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
  bareUrl = "";

  private constructor({ rows, stepMs, modelPath }: BenchOptions) {
    const args = ["run", "-A", SERVER, modelPath, `${rows}`, `${stepMs}`];
    this.#child = new Deno.Command(Deno.execPath(), { args, stdin: "piped", stdout: "piped", stderr: "inherit" }).spawn();
    this.#lines = this.#child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream()).getReader();
    this.#input = this.#child.stdin.getWriter();
  }

  static async start(options: BenchOptions): Promise<BenchServer> {
    const server = new BenchServer(options);
    Object.assign(server, JSON.parse(await server.#line()));
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
  const [messages, bare, served] = [await readAlone(server, options), await readBare(server, options), await runAll(server, options)];
  const measuredMs = served.atMs / served.steps;
  const stepMs = options.ofMs ?? measuredMs;
  const messagesMs = perStep(messages);
  const line = (name: string, ms: number): string =>
    `${name}: ${ms.toFixed(2)} ms a step, ${(100 * ms / stepMs).toFixed(1)} % of ${stepMs.toFixed(1)} ms, ${
      (1000 * ms / options.rows).toFixed(1)
    } µs a token`;
  console.log(
    `${options.rows} rows, ${options.rows * options.tokens} tokens in ${served.numEvents} events, ${served.steps} steps of ${
      measuredMs.toFixed(1)
    } ms. CPU time of ${options.stepMs > 0 ? "all threads" : "the main thread"}:\n${line("the engine's messages", messagesMs)}\n${
      line("Deno's HTTP server alone", perStep(bare) - messagesMs)
    }\n${line("HTTP and protocol", perStep(served) - messagesMs)}`,
  );
}

function perStep({ cpuMs, steps }: Usage): number {
  return cpuMs / steps;
}

/** The same steps without clients. */
async function readAlone(server: BenchServer, { tokens }: BenchOptions): Promise<Usage> {
  const before = await server.usage();
  const after = await server.usage(tokens);
  return { cpuMs: after.cpuMs - before.cpuMs, steps: after.steps - before.steps, atMs: after.atMs - before.atMs };
}

/** The same steps with clients of bare streams. @throws {Error} when they did not get an event for every step. */
async function readBare(server: BenchServer, options: BenchOptions): Promise<Usage> {
  const responses = await Promise.all(Array.from({ length: options.rows }, () => fetch(server.bareUrl)));
  const bodies = Promise.all(responses.map((response) => response.bytes()));
  const usage = await readAlone(server, options);
  const numBytes = (await bodies).map(({ byteLength }) => byteLength);
  if (Math.min(...numBytes) < usage.steps) throw new Error(`Bare streams of ${usage.steps} steps brought ${numBytes.join(", ")} bytes`);
  return usage;
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      rows: { type: "string", default: "16" },
      tokens: { type: "string", default: "300" },
      "step-ms": { type: "string", default: "0" },
      "of-ms": { type: "string" },
      model: { type: "string" },
    },
  });
  const modelPath = values.model ?? await ensureModel(new TerminalProgress());
  const ofMs = values["of-ms"] === undefined ? null : Number(values["of-ms"]);
  await bench({ rows: Number(values.rows), tokens: Number(values.tokens), stepMs: Number(values["step-ms"]), ofMs, modelPath });
}
