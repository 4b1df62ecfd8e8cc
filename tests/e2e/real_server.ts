/** A real server: the default model through the native library, in the engine's worker, behind HTTP on a free port. */
import { EngineClient } from "../../src/engine/client.ts";
import type { EngineOptions } from "../../src/engine/messages.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import { serve } from "../../src/server/serve.ts";
import { findTestModel } from "../test_model.ts";

// deno-lint-ignore no-explicit-any
export type Json = any;

export interface RealServerOptions extends Partial<Omit<EngineOptions, "libraryPath" | "model">> {
  /** @default the default model, which set-up has fetched */
  readonly modelPath?: string;
}

/** What one choice of an answer holds. */
export interface Answer {
  readonly text: string;
  readonly finishReason: string;
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly Json[];
}

/** Starts a server for `body` and stops it afterwards. */
export async function withRealServer(options: RealServerOptions, body: (server: RealServer) => Promise<void>): Promise<void> {
  const { modelPath = requireTestModel(), ...engineOptions } = options;
  const limits = { maxBatch: 16, maxContext: 1024, maxQueue: 256, prefillChunk: 256, ...engineOptions };
  const model = loadModel(modelPath);
  const engine = await EngineClient.start({ ...limits, libraryPath: findLibrary(), model: model.spec });
  const running = serve({ models: [{ model, engine }], port: 0, options: { ...limits, writeLog: null } });
  try {
    await body(new RealServer(running.url));
  } finally {
    await running.drain(1000);
    await engine.close();
  }
}

export class RealServer {
  constructor(readonly url: string) {}

  /** POSTs `body`, an object or the text of one. */
  post(path: string, body: unknown, signal: AbortSignal | null = null): Promise<Response> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return fetch(`${this.url}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: text, signal });
  }

  async getJson(path: string): Promise<Json> {
    return await (await fetch(`${this.url}${path}`)).json();
  }

  /** All choices of a chat completion. @throws {Error} with the answer when it is not 200. */
  async chatAll(content: string, fields: Record<string, unknown>): Promise<Answer[]> {
    const body = { messages: [{ role: "user", content }], max_tokens: 16, return_token_ids: true, ...fields };
    const response = await this.post("/v1/chat/completions", body);
    const json: Json = await response.json();
    if (response.status !== 200) throw new Error(`${response.status}: ${JSON.stringify(json)}`);
    return json.choices.map((choice: Json): Answer => ({
      text: choice.message.content,
      finishReason: choice.finish_reason,
      tokenIds: choice.token_ids,
      logprobs: choice.logprobs?.content ?? [],
    }));
  }

  /** The one choice of a chat completion. */
  async chat(content: string, fields: Record<string, unknown>): Promise<Answer> {
    const [answer] = await this.chatAll(content, fields);
    if (answer === undefined) throw new Error("The answer has no choice");
    return answer;
  }

  /** Ids of a text. */
  async tokenize(content: string): Promise<number[]> {
    return (await (await this.post("/tokenize", { content })).json()).tokens;
  }

  /** The value of a metric without labels. */
  async metric(name: string): Promise<number> {
    const page = await (await fetch(`${this.url}/metrics`)).text();
    const line = page.split("\n").find((text) => text.startsWith(`${name} `));
    if (line === undefined) throw new Error(`/metrics has no ${name}`);
    return Number(line.slice(name.length + 1));
  }

  /** Waits until the metric has the value. @throws {Error} with the value found after `timeoutMs`. */
  async untilMetric(name: string, value: number, timeoutMs = 5000): Promise<void> {
    const endMs = performance.now() + timeoutMs;
    for (;;) {
      const found = await this.metric(name);
      if (found === value) return;
      if (performance.now() > endMs) throw new Error(`${name} is ${found}, expected ${value}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** The default model's path. @throws {Error} that says how to get it. */
export function requireTestModel(): string {
  const path = findTestModel();
  if (path === null) throw new Error("These tests need the default model: deno task setup fetches it");
  return path;
}
