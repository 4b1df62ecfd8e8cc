/**
 * The server of `http_bench.ts`, a process of its own so that its time is nobody else's. Prints its address and that of `BareStreams`, then what it has
 * used whenever a line comes in; a line with a number has it generate so many tokens a row before, which it reads and sends to nobody: the bare streams
 * that are open get an event for every step, and end. Arguments: the model, the number of rows, and the milliseconds of a step; with 0 the model itself
 * makes the steps.
 */
import process from "node:process";
import { EngineClient } from "../../src/engine/client.ts";
import { GREEDY } from "../../src/engine/sampling.ts";
import { TextLineStream } from "../../src/hub/text_lines.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { ThreadClock } from "../../src/native/thread_clock.ts";
import { serve } from "../../src/server/serve.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { BareStreams } from "./bare_streams.ts";
import { PacedEngine } from "./paced_engine.ts";

const [modelPath = "", rows = "16", stepMs = "0"] = Deno.args;
const [numRows, isPaced] = [Number(rows), Number(stepMs) > 0];
const model = loadModel(modelPath);
const engine = isPaced ? new PacedEngine(model.vocabSize, numRows, Number(stepMs)) : await EngineClient.start({
  libraryPath: await ensureLibrary(new TerminalProgress()),
  model: model.spec,
  ...{ maxBatch: numRows, maxContext: 4096, maxQueue: numRows, prefillChunk: 256 },
});
using clock = new ThreadClock();
const server = serve({ models: [{ model, engine }], port: 0, options: { writeLog: null, maxBatch: numRows } });
await using bare = new BareStreams();
engine.onStep(() => bare.write());
console.log(JSON.stringify({ url: server.url, bareUrl: bare.url }));
for await (const line of Deno.stdin.readable.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
  const maxTokens = Number(line);
  if (maxTokens > 0) {
    await Promise.all(Array.from({ length: numRows }, (_, row) => readRow(row, maxTokens)));
    bare.end();
  }
  const { user, system } = process.cpuUsage();
  // With a model the other threads are the engine's.
  console.log(
    JSON.stringify({ cpuMs: isPaced ? (user + system) / 1000 : clock.nowMs(), steps: engine.stats.steps, atMs: performance.now() }),
  );
}
await server.drain(1000);
await engine.close();

/** As the server reads it: with a listener. */
function readRow(row: number, maxTokens: number): Promise<void> {
  const sampling = { ...GREEDY, ignoreEos: true };
  const updates = engine.generate({
    id: `row ${row}`,
    promptIds: Int32Array.of(1, 2, 3, row),
    sampling,
    maxTokens,
    stopIds: [],
    promptLogprobs: -1,
  });
  return new Promise((resolve, reject) => {
    updates.listen({ onUpdate: ({ finishReason }) => finishReason !== null && resolve(), onFailure: reject });
  });
}
