// deno-lint-ignore-file explicit-function-return-type -- plain JavaScript: Node runs it, of whatever version is there
/**
 * llama.cpp behind the one route that the benchmark calls, on Node. The bindings batch the sequences of a context; a request takes the free
 * sequence that has most of its prompt already, as llama.cpp's own server does.
 * Arguments: folder with node_modules, GGUF file, port, number of sequences, tokens of one sequence, threads.
 */
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, modelPath, port, numSequences, contextSize, numThreads] = process.argv.slice(2);
const load = (name, entry) => import(pathToFileURL(join(folder, "node_modules", name, entry)).href);
const { getLlama } = await load("node-llama-cpp", "dist/index.js");
const { Template } = await load("@huggingface/jinja", "dist/index.js");

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", progressLogs: false });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({
  sequences: Number(numSequences),
  contextSize: Number(contextSize),
  threads: { ideal: Number(numThreads), min: Number(numThreads) },
});
const template = new Template(model.fileInfo.metadata.tokenizer.chat_template);
const free = Array.from({ length: Number(numSequences) }, () => context.getSequence());
const waiting = [];

async function takeSequence(tokens) {
  if (free.length === 0) await new Promise((resolve) => waiting.push(resolve));
  let best = 0;
  for (let i = 1; i < free.length; i++) {
    const [here, there] = [i, best].map((j) => free[j].compareContextTokens(tokens).firstDifferentIndex);
    if (here > there) best = i;
  }
  return free.splice(best, 1)[0];
}

function giveBack(sequence) {
  free.push(sequence);
  waiting.shift()?.();
}

async function answer({ messages, max_tokens: maxTokens, temperature, top_p: topP, top_k: topK, min_p: minP, seed }, send, isLeft) {
  const tokens = model.tokenize(template.render({ messages, add_generation_prompt: true }), true);
  const sequence = await takeSequence(tokens);
  const generated = [];
  let numSentChars = 0;
  try {
    // The last token is computed in any case: its logits are wanted.
    const numKnown = Math.min(sequence.compareContextTokens(tokens).firstDifferentIndex, tokens.length - 1);
    const rest = [{ start: numKnown, end: sequence.nextTokenIndex }];
    if (numKnown < sequence.nextTokenIndex) await sequence.eraseContextTokenRanges(rest);
    const options = { temperature, topP: topP ?? 1, topK: topK ?? 0, minP: minP ?? 0, seed, yieldEogToken: true };
    for await (const token of sequence.evaluate(tokens.slice(numKnown), options)) {
      generated.push(token);
      const text = model.detokenize(generated);
      if (!text.endsWith("\ufffd") && text.length > numSentChars) {
        send(text.slice(numSentChars));
        numSentChars = text.length;
      }
      if (generated.length >= maxTokens || isLeft()) break;
    }
  } finally {
    giveBack(sequence);
  }
  return { prompt_tokens: tokens.length, completion_tokens: generated.length, total_tokens: tokens.length + generated.length };
}

async function readJson(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
}

createServer(async (request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ data: [{ id: "default" }] }));
    return;
  }
  const write = (event) => response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
  let isLeft = false;
  response.on("close", () => isLeft = true);
  response.writeHead(200, { "content-type": "text/event-stream" });
  try {
    const usage = await answer(await readJson(request), (content) => write({ choices: [{ delta: { content } }] }), () => isLeft);
    write({ choices: [], usage });
  } catch (error) {
    write({ error: { message: String(error) } });
  }
  write("[DONE]");
  response.end();
}).listen(Number(port), "127.0.0.1");
