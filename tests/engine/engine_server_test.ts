/** The worker's message loop with a disk: when it steps, when it waits, and when it ends. */
import { assert, assertEquals } from "@std/assert";
import type { PageImage } from "../../src/engine/backend.ts";
import { EngineServer } from "../../src/engine/engine_server.ts";
import type { EngineFacts, EngineOptions, FromEngine, GenerateRequest, MessageCount, ToEngine } from "../../src/engine/messages.ts";
import { diskMemoryBytes, STALL_MS } from "../../src/engine/prefix_disk.ts";
import { FakeBackend } from "./fake_backend.ts";
import { FakeDisk } from "./fake_disk.ts";
import { LIMITS, request, solo, tokensOf } from "./requests.ts";

const OPTIONS: EngineOptions = { ...LIMITS, libraryPath: "", model: { config: {}, tensors: [] }, prefixCacheBytes: 1e6 };

/** A server whose messages are kept. */
class ServerRun {
  readonly messages: FromEngine[] = [];
  readonly disk: FakeDisk;
  readonly server: EngineServer;
  isClosed = false;
  #onMessage: () => void = () => {};

  constructor(pages = new Map<string, PageImage>()) {
    this.disk = new FakeDisk(pages);
    const post = (message: FromEngine): void => {
      this.messages.push(message);
      this.#onMessage();
    };
    this.server = new EngineServer({ post, close: () => void (this.isClosed = true) }, () => new FakeBackend(), () => this.disk);
    this.server.handle({ type: "load", options: OPTIONS });
  }

  submit(one: GenerateRequest): void {
    this.server.handle({ type: "submit", request: one });
  }

  tokens(id: string): number[] {
    return this.messages.flatMap((message) => message.type === "step" ? message.updates : []).filter((update) => update.id === id)
      .flatMap(({ tokens }) => tokens);
  }

  hasFinished(id: string): boolean {
    return this.messages.some((message) =>
      message.type === "step" && message.updates.some((update) => update.id === id && update.finishReason)
    );
  }

  /** @throws {Error} after ten seconds. */
  async until(isReached: () => boolean): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(() => late.reject(new Error("What the test waits for does not happen")), 10_000);
    try {
      while (!isReached()) await Promise.race([late.promise, new Promise<void>((resolve) => this.#onMessage = resolve)]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Serves one request with a disk that answers at once. */
  async serve(one: GenerateRequest): Promise<void> {
    this.submit(one);
    const timer = setInterval(() => {
      this.disk.answerReads();
      this.disk.finishWrites();
    }, 1);
    await this.until(() => this.hasFinished(one.id) && this.disk.numWriting === 0);
    clearInterval(timer);
  }

  /** Answers what the engine asks the disk for, as soon as it does. */
  async answerDisk(): Promise<void> {
    for (let tries = 0; this.disk.numReading === 0; tries++) {
      assert(tries < 1000, "Nobody asks the disk for anything");
      await pause(1);
    }
    this.disk.answerReads();
  }

  shutDown(): void {
    this.server.handle({ type: "shutdown" });
  }
}

const PROMPT = Array.from({ length: 200 }, (_, i) => (i * i * 7 + 3) % 200);

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function pagesOf(one: GenerateRequest): Promise<Map<string, PageImage>> {
  const run = new ServerRun();
  await run.serve(one);
  run.shutDown();
  return run.disk.pages;
}

Deno.test("an engine that only waits for the disk does nothing until that answers, then goes on at once", async () => {
  const one = request("r", { promptIds: PROMPT });
  const run = new ServerRun(await pagesOf(one));
  run.submit(one);
  await pause(60);
  assertEquals([run.disk.numReading, run.messages.filter(({ type }) => type === "step").length], [3, 0]);
  const startMs = performance.now();
  run.disk.answerReads();
  await run.until(() => run.hasFinished("r"));
  assert(performance.now() - startMs < STALL_MS / 2, `It took ${performance.now() - startMs} ms`);
  assertEquals(run.tokens("r"), tokensOf(solo(one)));
  run.shutDown();
  assert(run.isClosed && run.disk.isClosed);
});

Deno.test("an engine whose disk never answers computes by itself after a while", async () => {
  const one = request("r", { promptIds: PROMPT });
  const run = new ServerRun(await pagesOf(one));
  const startMs = performance.now();
  run.submit(one);
  await run.until(() => run.hasFinished("r"));
  const tookMs = performance.now() - startMs;
  assert(tookMs >= STALL_MS && tookMs < 3 * STALL_MS, `It took ${tookMs} ms`);
  assertEquals(run.tokens("r"), tokensOf(solo(one)));
  run.shutDown();
});

Deno.test("pages are written while the engine is idle, and figures follow without a step", async () => {
  const run = new ServerRun();
  run.submit(request("r", { promptIds: PROMPT }));
  await run.answerDisk();
  await run.until(() => run.hasFinished("r"));
  const numSteps = run.messages.filter(({ type }) => type === "step").length;
  while (run.disk.numWriting > 0) run.disk.finishWrites(1);
  assertEquals([run.disk.pages.size, run.messages.at(-1)?.type], [3, "stats"]);
  assertEquals(run.messages.filter(({ type }) => type === "step").length, numSteps);
  run.shutDown();
});

Deno.test("an engine that gives its memory back when it is idle tells of it without a step", async () => {
  const setTimer = globalThis.setTimeout;
  const idle: (() => void)[] = [];
  // The time until then is not waited for.
  globalThis.setTimeout = ((act: () => void, ms: number) => ms >= 10_000 ? idle.push(act) : setTimer(act, ms)) as typeof setTimeout;
  try {
    const run = new ServerRun();
    run.submit(request("r"));
    await run.until(() => run.hasFinished("r"));
    await pause(10);
    const numSteps = run.messages.filter(({ type }) => type === "step").length;
    idle.at(-1)?.();
    assertEquals(run.messages.filter(({ type }) => type === "step").length, numSteps);
    const last = run.messages.at(-1);
    assertEquals(last?.type === "stats" && last.stats.kvBytes, 0);
    run.shutDown();
  } finally {
    globalThis.setTimeout = setTimer;
  }
});

Deno.test("an engine that is shut down ends when its pages are written, or after two seconds", async () => {
  for (const isDead of [false, true]) {
    const run = new ServerRun();
    run.submit(request("r", { promptIds: PROMPT }));
    await run.answerDisk();
    await run.until(() => run.hasFinished("r"));
    const startMs = performance.now();
    run.shutDown();
    await pause(50);
    assertEquals(run.isClosed, false);
    while (!isDead && run.disk.numWriting > 0) run.disk.finishWrites(1);
    await run.until(() => run.messages.at(-1)?.type === "closed");
    const tookMs = performance.now() - startMs;
    assertEquals([run.isClosed, run.disk.isClosed, run.disk.pages.size], [true, true, isDead ? 0 : 3]);
    assert(isDead ? tookMs >= 1900 && tookMs < 4000 : tookMs < 1500, `It took ${tookMs} ms`);
  }
});

Deno.test("what the disk takes counts as the engine's memory: in the least that it needs, in what it may take, and when that changes", async () => {
  const load = (
    disk: FakeDisk | null,
    memoryBytes: number,
  ): { server: EngineServer; messages: FromEngine[]; facts: Partial<EngineFacts> } => {
    const messages: FromEngine[] = [];
    const port = { post: (message: FromEngine) => void messages.push(message), close: (): void => {} };
    const server = new EngineServer(port, () => new FakeBackend(), () => disk);
    server.handle({ type: "load", options: { ...OPTIONS, memoryBytes } });
    const [ready] = messages;
    return { server, messages, facts: ready?.type === "ready" ? ready.facts : {} };
  };
  const { weightBytes, kvBytesPerToken } = new FakeBackend().facts;
  const diskBytes = diskMemoryBytes({ kvBytesPerToken });
  const memoryBytes = weightBytes + 64 * kvBytesPerToken;
  const alone = load(null, memoryBytes).facts;
  const { server, messages, facts } = load(new FakeDisk(), memoryBytes + diskBytes);
  assertEquals([alone.maxRowTokens, alone.leastBytes], [64, memoryBytes]);
  assertEquals([facts.maxRowTokens, facts.leastBytes], [64, memoryBytes + diskBytes]);
  server.handle({ type: "limit", memoryBytes: 2 * memoryBytes + diskBytes });
  server.handle({ type: "submit", request: request("r") });
  while (messages.at(-1)?.type !== "step") await pause(1);
  const limits = messages.flatMap((message) => message.type === "step" ? [message.stats.memoryLimitBytes] : []);
  assertEquals(limits[0], 2 * memoryBytes);
  server.handle({ type: "shutdown" });
});

/** A server whose calls of the model and messages are kept in the order in which they happen. */
function tracedServer(): {
  readonly trace: string[];
  readonly numUnread: MessageCount;
  readonly post: (message: ToEngine) => void;
} {
  const trace: string[] = [];
  const backend = new FakeBackend({
    forward: ({ numRows }) => {
      trace.push(`forward ${numRows}`);
      return null;
    },
    sample: () => {
      trace.push("draw");
      return null;
    },
  });
  const port = { post: ({ type }: FromEngine) => void trace.push(type), close: (): void => {} };
  const server = new EngineServer(port, () => backend, () => null);
  const numUnread: MessageCount = new Int32Array(new SharedArrayBuffer(4));
  const post = (message: ToEngine): void => {
    Atomics.add(numUnread, 0, 1);
    server.handle(message);
  };
  post({ type: "load", options: OPTIONS, numUnread });
  return { trace, numUnread, post };
}

async function untilTrace(trace: readonly string[], isReached: () => boolean): Promise<void> {
  for (let tries = 0; !isReached(); tries++) {
    assert(tries < 2000, `What the test waits for does not happen: ${trace}`);
    await pause(1);
  }
}

Deno.test("the next forward starts before a step is told about, unless somebody has written meanwhile: then they are read first", async () => {
  const { trace, numUnread, post } = tracedServer();
  post({ type: "submit", request: request("a", { maxTokens: 4 }) });
  await untilTrace(trace, () => trace.filter((entry) => entry === "step").length === 4);
  // Each forward but the first goes on with what the one before it draws, before that is known.
  const ahead = ["forward 1", "forward 1", "draw", "step", "forward 1", "draw", "step", "forward 1", "draw", "step", "draw", "step"];
  assertEquals(trace, ["ready", ...ahead]);
  trace.length = 0;
  Atomics.add(numUnread, 0, 1);
  post({ type: "submit", request: request("b", { maxTokens: 2 }) });
  await untilTrace(trace, () => trace.filter((entry) => entry === "step").length === 2);
  assertEquals(trace, ["forward 1", "draw", "step", "forward 1", "draw", "step"]);
  post({ type: "shutdown" });
});

Deno.test("a budget that changes and an engine that ends wait for the forward that is on its way, and no token is lost", async () => {
  const { trace, post } = tracedServer();
  post({ type: "submit", request: request("a", { maxTokens: 380 }) });
  await untilTrace(trace, () => trace.at(-1) === "step");
  post({ type: "limit", memoryBytes: 1e6 });
  assertEquals(trace.slice(-4), ["step", "draw", "step", "limited"]);
  await untilTrace(trace, () => trace.at(-1) === "step");
  const count = (wanted: string): number => trace.filter((entry) => entry === wanted).length;
  const numInFlight = count("forward 1") - count("draw");
  post({ type: "shutdown" });
  assertEquals([numInFlight, ...trace.slice(-3)], [1, "draw", "failed", "closed"]);
});
