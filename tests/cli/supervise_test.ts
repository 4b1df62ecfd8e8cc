import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { CANNOT_START, type ExitStatus, keepRunning, type SupervisorPort } from "../../src/cli/supervise.ts";
import { HealthWatch } from "../../src/cli/supervised.ts";
import { type CliResult, runMain, ServerProcess, TINY_MODEL } from "./cli_process.ts";

/** A process that ends in the given ways, one after the other, after the given times. */
class FakeProcess implements SupervisorPort {
  isStopping = false;
  readonly waitsMs: number[] = [];
  readonly notes: string[] = [];
  #nowMs = 0;

  constructor(readonly ends: (ExitStatus & { readonly afterMs?: number })[], readonly stopInWait = -1) {}

  run(): Promise<ExitStatus> {
    const end = this.ends.shift();
    if (end === undefined) throw new Error("started more often than expected");
    this.#nowMs += end.afterMs ?? 0;
    return Promise.resolve(end);
  }

  wait(delayMs: number): Promise<void> {
    if (this.waitsMs.push(delayMs) - 1 === this.stopInWait) this.isStopping = true;
    return Promise.resolve();
  }

  now(): number {
    return this.#nowMs;
  }

  note(text: string): void {
    this.notes.push(text);
  }
}

const CRASH: ExitStatus = { code: 134, signal: "SIGABRT" };
const DONE: ExitStatus = { code: 0, signal: null };

Deno.test("a process that dies is started again after waits that grow up to half a minute, until it ends in order", async () => {
  const process = new FakeProcess([...Array(7).fill(CRASH), DONE]);
  assertEquals(await keepRunning(process), 0);
  assertEquals(process.waitsMs, [1, 2, 4, 8, 16, 30, 30].map((seconds) => 1000 * seconds));
  assertEquals(process.notes[0], "The serving process ended by SIGABRT; it is started again in 1 s");
});

Deno.test("after a long good run the wait is short again", async () => {
  const process = new FakeProcess([CRASH, CRASH, { ...CRASH, afterMs: 60_000 }, DONE]);
  await keepRunning(process);
  assertEquals(process.waitsMs, [1000, 2000, 1000]);
});

Deno.test("a process that cannot start, and one that was told to stop, are not started again", async () => {
  assertEquals(await keepRunning(new FakeProcess([{ code: CANNOT_START, signal: null }])), 1);
  const stopped = new FakeProcess([{ code: 143, signal: "SIGTERM" }]);
  stopped.isStopping = true;
  assertEquals(await keepRunning(stopped), 143);
  assertEquals(await keepRunning(new FakeProcess([CRASH], 0)), 134);
});

Deno.test("an engine counts as lost after a minute without a healthy answer, and not before", async () => {
  let [nowMs, isHealthy, numLost] = [0, true, 0];
  const watch = new HealthWatch({ isHealthy: () => Promise.resolve(isHealthy), onLost: () => void numLost++, now: () => nowMs });
  const checkAt = async (seconds: number, healthy: boolean): Promise<number> => {
    [nowMs, isHealthy] = [1000 * seconds, healthy];
    await watch.check();
    return numLost;
  };
  assertEquals(await checkAt(0, true), 0);
  assertEquals(await checkAt(100, false), 0);
  assertEquals(await checkAt(159, false), 0);
  assertEquals(await checkAt(160, true), 0);
  assertEquals(await checkAt(161, false), 0);
  assertEquals(await checkAt(220, false), 0);
  assertEquals(await checkAt(221, false), 1);
});

/** The serving process of a supervisor. */
async function childOf(pid: number): Promise<number> {
  return Number((await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`)).trim());
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("not within 30 s");
}

function answers(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(async (response) => (await response.body?.cancel(), response.ok), () => false);
}

function freePort(): string {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return `${(listener.addr as Deno.NetAddr).port}`;
}

Deno.test({
  name: "a supervised server that is killed serves again on the same port, and stops with its supervisor's signal",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await using server = await ServerProcess.start("--model", TINY_MODEL, "--port", freePort(), "--supervise");
    const first = await childOf(server.pid);
    Deno.kill(first, "SIGABRT");
    await until(async () => await answers(server.url) && await childOf(server.pid) !== first);
    server.kill("SIGTERM");
    const { code, log } = await server.ended();
    assertEquals(code, 0);
    assertStringIncludes(log, "The serving process ended by SIGABRT; it is started again in 1 s");
  },
});

Deno.test({
  name: "a serving process does not outlive its supervisor",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const server = await ServerProcess.start("--model", TINY_MODEL, "--port", freePort(), "--supervise");
    server.kill("SIGKILL");
    await server.ended();
    await until(async () => !await answers(server.url));
  },
});

Deno.test("a supervised server that cannot start ends at once with its one line", async () => {
  const { code, stderr }: CliResult = await runMain("serve", "--supervise", "--port", "0", "--model", "no/such/model.gguf");
  assertEquals(code, 1);
  assert(/^rowlock: [^\n]*no\/such\/model\.gguf[^\n]*\n$/.test(stderr), stderr);
});
