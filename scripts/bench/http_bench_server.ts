/** The server of `http_bench.ts`, a process of its own so that its time is nobody else's. Prints its address, then its CPU time whenever a line comes in. */
import process from "node:process";
import { loadModel } from "../../src/models/checkpoint.ts";
import { serve } from "../../src/server/serve.ts";
import { PacedEngine } from "./paced_engine.ts";

const [modelPath = "", numRows = "16", stepMs = "5"] = Deno.args;
const model = await loadModel(modelPath);
const engine = new PacedEngine(model.vocabSize, Number(numRows), Number(stepMs));
const server = serve({ models: [{ model, engine }], port: 0, options: { writeLog: null, maxBatch: Number(numRows) } });
console.log(server.url);
for await (const _line of Deno.stdin.readable) {
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify({ cpuMs: (user + system) / 1000, steps: engine.stats.steps }));
}
await server.drain(1000);
await engine.close();
