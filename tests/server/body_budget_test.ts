/** What all request bodies take together while they are read. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BodyBudget, bodyBudgetBytes } from "../../src/server/body_budget.ts";
import { ApiError } from "../../src/server/errors.ts";
import { HELLO, type TestApp, testApp, tick } from "./fakes.ts";

const KIB = 1024;
const MIB = 2 ** 20;
const CHAT = "/v1/chat/completions";
/** A test that waits for this has failed. */
const NEVER_MS = 60_000;

Deno.test("a body waits until others have given back what it needs, and those after it wait behind it", async () => {
  const budget = new BodyBudget(300 * KIB, NEVER_MS);
  const [first, large, next] = [budget.open(), budget.open(), budget.open()];
  await first.grow(200 * KIB);
  const granted: string[] = [];
  const both = [large.grow(250 * KIB).then(() => granted.push("large")), next.grow(100 * KIB).then(() => granted.push("next"))];
  await tick();
  assertEquals([granted, budget.numBytes], [[], 200 * KIB]);
  first[Symbol.dispose]();
  await both[0];
  await tick();
  assertEquals([granted, budget.numBytes], [["large"], 250 * KIB]);
  large[Symbol.dispose]();
  await both[1];
  assertEquals([granted, budget.numBytes], [["large", "next"], 100 * KIB]);
  next[Symbol.dispose]();
  next[Symbol.dispose]();
  assertEquals(budget.numBytes, 0);
});

Deno.test("small bodies never wait, and are counted", async () => {
  const budget = new BodyBudget(300 * KIB, NEVER_MS);
  const [large, ...small] = Array.from({ length: 20 }, () => budget.open());
  await large!.grow(300 * KIB);
  for (const share of small) {
    await share.grow(10 * KIB);
    await share.grow(64 * KIB);
  }
  assertEquals(budget.numBytes, (300 + 19 * 64) * KIB);
});

Deno.test("a body that is refused leaves room for those that wait behind it", async () => {
  const budget = new BodyBudget(300 * KIB, 20);
  await budget.open().grow(200 * KIB);
  const refused = assertRejects(() => budget.open().grow(250 * KIB), ApiError);
  await tick(1);
  const next = budget.open().grow(100 * KIB);
  const { status, code, headers, message } = await refused;
  assertEquals([status, code, headers], [503, "server_busy", { "retry-after": "2", connection: "close" }]);
  assertStringIncludes(message, `${300 * KIB} bytes`);
  await next;
  assertEquals(budget.numBytes, 300 * KIB);
});

Deno.test("a body that is begun goes before those that are not", async () => {
  const budget = new BodyBudget(300 * KIB, NEVER_MS);
  const [begun, other, waiting] = [budget.open(), budget.open(), budget.open()];
  await begun.grow(100 * KIB);
  await other.grow(100 * KIB);
  const later = waiting.grow(200 * KIB);
  await begun.grow(200 * KIB);
  assertEquals(budget.numBytes, 300 * KIB);
  begun[Symbol.dispose]();
  await later;
});

Deno.test("a body that is begun and has to wait goes before those that wait already", async () => {
  const budget = new BodyBudget(300 * KIB, NEVER_MS);
  const [begun, other, waiting] = [budget.open(), budget.open(), budget.open()];
  await begun.grow(100 * KIB);
  await other.grow(150 * KIB);
  const granted: string[] = [];
  const later = waiting.grow(200 * KIB).then(() => granted.push("waiting"));
  const more = begun.grow(200 * KIB).then(() => granted.push("begun"));
  other[Symbol.dispose]();
  await more;
  await tick();
  assertEquals([granted, budget.numBytes], [["begun"], 200 * KIB]);
  begun[Symbol.dispose]();
  await later;
});

Deno.test("the budget holds two of the largest bodies", () => {
  assertEquals([bodyBudgetBytes(MIB), bodyBudgetBytes(16 * MIB), bodyBudgetBytes(100 * MIB)], [32 * MIB, 32 * MIB, 200 * MIB]);
});

interface IdlePost {
  readonly response: Promise<Response>;
  breakOff(): void;
}

/** Begins a request whose client does nothing more after `sent`. */
function idlePost({ app }: TestApp, declaredBytes: number | null, sent: Uint8Array[]): IdlePost {
  let client: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      client = controller;
      sent.forEach((part) => controller.enqueue(part));
    },
  });
  const length: Record<string, string> = declaredBytes === null ? {} : { "content-length": String(declaredBytes) };
  const headers = { "content-type": "application/json", ...length };
  return {
    response: app.fetch(new Request(`http://localhost${CHAT}`, { method: "POST", headers, body })),
    breakOff: () => client!.error(new Error("connection reset")),
  };
}

async function bodyBytes(app: TestApp): Promise<number> {
  const page = await (await app.get("/metrics")).text();
  return Number(/^rowlock_body_bytes (\d+)$/m.exec(page)![1]);
}

const part = (): Uint8Array => new Uint8Array(8 * MIB).fill(0x20);
const WAYS: Readonly<Record<string, (app: TestApp) => IdlePost>> = {
  "that declare their length": (app) => idlePost(app, 16 * MIB, []),
  "that come in chunks": (app) => idlePost(app, null, [part(), part()]),
};

for (const [name, post] of Object.entries(WAYS)) {
  Deno.test(`idle clients with large bodies ${name} keep out large bodies alone, and only while they are there`, async () => {
    const app = testApp(undefined, { bodyTimeoutMs: NEVER_MS, bodyWaitMs: 10 });
    const idle = Array.from({ length: 2 }, () => post(app));
    while (await bodyBytes(app) < 32 * MIB) await tick();
    const refused = await post(app).response;
    assertEquals([refused.status, (await refused.json()).error.code], [503, "server_busy"]);
    assertEquals([refused.headers.get("retry-after"), refused.headers.get("connection")], ["2", "close"]);
    const small = await app.post(CHAT, HELLO);
    await small.body?.cancel();
    assertEquals([small.status, await bodyBytes(app)], [200, 32 * MIB]);
    for (const { response, breakOff } of idle) {
      breakOff();
      assertEquals((await (await response).json()).error.code, "incomplete_body");
    }
    assertEquals(await bodyBytes(app), 0);
    const later = await app.post(CHAT, { ...HELLO, user: "x".repeat(MIB) });
    await later.body?.cancel();
    assertEquals([later.status, await bodyBytes(app)], [200, 0]);
  });
}
