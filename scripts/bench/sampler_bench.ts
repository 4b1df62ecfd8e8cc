/**
 * Microseconds of sampling one step: all rows in one call, a loop of single-row calls, and beside them the plain argmax of all rows.
 * `--peer PYTHON` measures, in the same run, a loop over rows of MLX operations, which is how MLX servers sample rows that differ.
 * At the end, tokens per second of the served model: greedy, one shared configuration, all distinct.
 */
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { packSampling } from "../../src/engine/sampling_batch.ts";
import { runCommand } from "../../src/hub/command.ts";
import { NativeLibrary } from "../../src/native/library.ts";
import { type SampleCall, StepOutput } from "../../src/native/step_output.ts";
import { EDIT_WORDS, SampledRows, SAMPLING_FIELD as FIELD, SAMPLING_WORDS, StructArray } from "../../src/native/structs.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { runScript } from "../run_script.ts";
import { GREEDY_CASE, SAMPLER_CASES, type SamplerCase } from "./sampler_cases.ts";

const HELP = `Usage: deno task bench:sampler [flags]
  --rows LIST         rows of a step (default: 1,4,8,16)
  --vocabulary LIST   sizes of the vocabulary (default: 49152,151936)
  --peer PYTHON       a Python that has mlx: measures a loop over rows of MLX operations too
  --no-served         leave out the tokens per second of the served model`;

/** Each figure is the median of the calls that fit in this time. */
const TIME_MS = 150;
const MIN_CALLS = 9;
const PEER_SCRIPT = fileURLToPath(new URL("./mlx_sampler.py", import.meta.url));
const SERVE_BENCH = fileURLToPath(new URL("./serve_bench.ts", import.meta.url));

interface BenchOptions {
  readonly rows: readonly number[];
  readonly vocabularies: readonly number[];
  readonly peer: string | null;
  readonly isServed: boolean;
}

function parseOptions(args: string[]): BenchOptions {
  const { values } = parseArgs({
    args,
    options: {
      rows: { type: "string", default: "1,4,8,16" },
      vocabulary: { type: "string", default: "49152,151936" },
      peer: { type: "string" },
      "no-served": { type: "boolean", default: false },
    },
  });
  const numbers = (flag: string, text: string): number[] =>
    text.split(",").map((part) => {
      if (!/^[1-9]\d*$/.test(part)) throw new Error(`${flag} has "${part}", expected whole numbers from 1`);
      return Number(part);
    });
  return {
    rows: numbers("--rows", values.rows),
    vocabularies: numbers("--vocabulary", values.vocabulary),
    peer: values.peer ?? null,
    isServed: !values["no-served"],
  };
}

/** A normal bulk and a few tokens that stand out, as a model leaves logits. Repeatable. */
function makeLogits(vocabSize: number, row: number): Float32Array<ArrayBuffer> {
  let state = 12345 + row;
  const uniform = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return Float32Array.from({ length: vocabSize }, () => {
    const normal = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    return 2 * normal + (uniform() * vocabSize < 12 ? 8 * uniform() : 0);
  });
}

/** The call that samples rows `first … first + numRows - 1` of the case. */
function makeCall({ config, numEdits }: SamplerCase, first: number, numRows: number): SampleCall {
  const rows = new StructArray(SAMPLING_WORDS, numRows);
  const edits = new StructArray(EDIT_WORDS, numRows * numEdits);
  let hasAlternatives = false;
  for (let row = 0; row < numRows; row++) {
    const own = config(first + row);
    packSampling(rows, row, own);
    hasAlternatives ||= own.numTopLogprobs > 0;
    rows.int32[row * SAMPLING_WORDS + FIELD.editsBegin] = row * numEdits;
    rows.int32[row * SAMPLING_WORDS + FIELD.editsEnd] = (row + 1) * numEdits;
    for (let i = 0; i < numEdits; i++) {
      const at = (row * numEdits + i) * EDIT_WORDS;
      edits.int32[at] = 61 * i + row;
      edits.float32.set([0, 1.1, 0.5], at + 1);
    }
  }
  return {
    rows,
    numRows,
    edits,
    numEdits: numRows * numEdits,
    masks: new Uint32Array(0),
    numMasks: 0,
    hasAlternatives,
    sampled: new SampledRows(),
  };
}

/** Microseconds of one call, the median. A call gets its number, so that every one can draw at a position of its own. */
function timeCalls(call: (index: number) => void): number {
  const times: number[] = [];
  const endMs = performance.now() + TIME_MS;
  call(0);
  for (let i = 1; times.length < MIN_CALLS || performance.now() < endMs; i++) {
    const startMs = performance.now();
    call(i);
    times.push(1000 * (performance.now() - startMs));
  }
  return times.sort((a, b) => a - b)[times.length >> 1] ?? NaN;
}

class BatchLogits {
  readonly together: StepOutput;
  readonly single: readonly StepOutput[];

  constructor(library: NativeLibrary, readonly numRows: number, vocabSize: number) {
    const rows = Array.from({ length: numRows }, (_, row) => makeLogits(vocabSize, row));
    const all = new Float32Array(numRows * vocabSize);
    rows.forEach((logits, row) => all.set(logits, row * vocabSize));
    this.together = new StepOutput(library);
    this.together.write(all, vocabSize);
    this.single = rows.map((logits) => {
      const output = new StepOutput(library);
      output.write(logits, vocabSize);
      return output;
    });
  }

  /** All rows in one call. */
  timeTogether(one: SamplerCase): number {
    const call = makeCall(one, 0, this.numRows);
    return timeCalls((index) => {
      for (let row = 0; row < this.numRows; row++) call.rows.uint32[row * SAMPLING_WORDS + FIELD.position] = index;
      this.together.sample(call);
    });
  }

  /** A call for each row. */
  timeLoop(one: SamplerCase): number {
    const calls = this.single.map((_, row) => makeCall(one, row, 1));
    return timeCalls((index) =>
      calls.forEach((call, row) => {
        call.rows.uint32[FIELD.position] = index;
        this.single[row]?.sample(call);
      })
    );
  }

  close(): void {
    for (const output of [this.together, ...this.single]) output.close();
  }
}

/** Case → microseconds of the peer; empty without one. */
async function timePeer(peer: string | null, numRows: number, vocabSize: number): Promise<Readonly<Record<string, number>>> {
  if (peer === null) return {};
  const lines = await runCommand([peer, PEER_SCRIPT, `${numRows}`, `${vocabSize}`]);
  return JSON.parse(lines.at(-1) ?? "{}");
}

async function benchCalls(library: NativeLibrary, options: BenchOptions): Promise<void> {
  const peerHead = options.peer === null ? "" : " MLX loop | × MLX loop |";
  console.log(`| vocabulary | rows | case | one call µs | loop | × loop | argmax | of argmax |${peerHead}`);
  console.log(`| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |${options.peer === null ? "" : " ---: | ---: |"}`);
  for (const vocabSize of options.vocabularies) {
    for (const numRows of options.rows) {
      const logits = new BatchLogits(library, numRows, vocabSize);
      const peer = await timePeer(options.peer, numRows, vocabSize);
      const argmax = logits.timeTogether(GREEDY_CASE);
      for (const one of SAMPLER_CASES) {
        const [together, loop, peerUs] = [logits.timeTogether(one), logits.timeLoop(one), peer[one.name]];
        const cells = [vocabSize, numRows, one.name, together.toFixed(0), loop.toFixed(0), (loop / together).toFixed(2), argmax.toFixed(0)];
        const peerCells = options.peer === null
          ? []
          : peerUs === undefined
          ? ["–", "–"]
          : [peerUs.toFixed(0), (peerUs / together).toFixed(1)];
        console.log(`| ${[...cells, (together / argmax).toFixed(1), ...peerCells].join(" | ")} |`);
      }
      logits.close();
    }
  }
}

/** The whole server's figures come from its own benchmark. */
async function benchServed(): Promise<void> {
  const args = ["run", "-A", SERVE_BENCH, "--rows", "8,16"];
  const { code } = await new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "inherit", stderr: "inherit" }).output();
  if (code !== 0) throw new Error(`The benchmark of the served model ended with exit code ${code}`);
}

async function bench(options: BenchOptions): Promise<void> {
  const library = NativeLibrary.open(await ensureLibrary(new TerminalProgress()));
  try {
    await benchCalls(library, options);
  } finally {
    library.close();
  }
  if (options.isServed) await benchServed();
}

if (import.meta.main) await runScript("bench:sampler", HELP, (args) => bench(parseOptions(args)));
