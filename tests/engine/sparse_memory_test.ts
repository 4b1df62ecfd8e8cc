/** Rows within a budget of bytes over a sparse cache: each takes what it is long, and gives it back when it leaves. */
import { assert, assertEquals } from "@std/assert";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { BudgetedBackend } from "./budgeted_backend.ts";
import { budgetFor, checkContents, runOn, TOKEN_BYTES } from "./budgeted_run.ts";
import { OracleDrafter } from "./oracle_drafter.ts";
import { type CoreRun, request } from "./requests.ts";
import { SparseBackend } from "./sparse_backend.ts";
import { MemoryBudget, memoryCosts } from "../../src/engine/memory_budget.ts";

const LONG = request("long", { promptIds: Array(300).fill(9), maxTokens: 100 });
const CHATS = Array.from({ length: 7 }, (_, i) => request(`chat${i}`, { promptIds: [i, 3], maxTokens: 40 }));

/** Bytes of what the rows have in the cache. */
function bytesOfRows({ core }: CoreRun): number {
  return TOKEN_BYTES * core.scheduler.rows.sequences.reduce((sum, { cachedLen }) => sum + cachedLen, 0);
}

/** The requests that have rows after the first step. */
function admittedOn(backend: BudgetedBackend, requests: readonly GenerateRequest[]): string[] {
  const run = runOn(backend, { prefillChunk: 64 }).submit(...requests);
  run.step();
  const ids = run.core.scheduler.rows.sequences.map(({ id }) => id);
  run.finish();
  checkContents(run, requests);
  assertEquals(run.core.stats().preemptions, 0);
  return ids;
}

Deno.test("a long row keeps no short ones waiting, nor they it, where a cache that takes all its room has to", () => {
  const requests = [LONG, ...CHATS];
  assertEquals(admittedOn(new SparseBackend(budgetFor(900)), requests).length, 8);
  assertEquals(admittedOn(new SparseBackend(budgetFor(900)), [...CHATS, LONG]).length, 8);
  assertEquals(admittedOn(new BudgetedBackend(budgetFor(900)), requests), ["long", "chat0"]);
});

Deno.test("a row waits while it and the others cannot grow by a quarter, nobody overtakes it, and it gets its turn", () => {
  // The long row's quarter goes to 375 tokens, which takes 384; every chat has 64.
  assertEquals(admittedOn(new SparseBackend(budgetFor(384 + 3 * 64)), [LONG, ...CHATS]), ["long", "chat0", "chat1", "chat2"]);
  assertEquals(admittedOn(new SparseBackend(budgetFor(384 + 64)), [...CHATS.slice(0, 2), LONG, ...CHATS.slice(2)]), ["chat0", "chat1"]);
});

Deno.test("memory is what the rows there have written: whoever leaves or gives way takes nothing along, wherever rows move", () => {
  const backend = new SparseBackend(budgetFor(512));
  const run = runOn(backend, { prefillChunk: 64 });
  const requests = Array.from(
    { length: 12 },
    (_, i) => request(`r${i}`, { promptIds: Array((i * 37) % 110 + 1).fill(i), maxTokens: (i * 53) % 150 + 1 }),
  );
  run.submit(...requests);
  while (run.core.hasWork) {
    run.step();
    assertEquals(backend.memory().kvBytes, bytesOfRows(run));
  }
  checkContents(run, requests);
  assert(run.core.stats().preemptions > 0 && backend.numMoves > 0, `${run.core.stats().preemptions} gave way, ${backend.numMoves} moved`);
});

Deno.test("prefix pages give way to tokens of rows, no more than has to be, and that copies no cache", () => {
  const backend = new SparseBackend(budgetFor(64 * 14));
  const run = runOn(backend, { maxBatch: 5, prefixCacheBytes: 64 * TOKEN_BYTES * 8, prefillChunk: 64 });
  for (const seed of [1, 3, 7]) {
    run.submit(request(`s${seed}`, { promptIds: Array.from({ length: 130 }, (_, i) => (i * seed) % 20), maxTokens: 2 })).finish();
  }
  assertEquals(backend.pages.size, 6);
  // Up to 255 tokens of one and 125 of each of the others, which takes 256 and 128, leave room for two pages.
  const requests = [
    request("longest", { promptIds: Array(140).fill(9), maxTokens: 115, cachePrompt: false }),
    ...[20, 25, 30, 35].map((length) =>
      request(`of${length}`, { promptIds: Array(length).fill(length % 20), maxTokens: 90, cachePrompt: false })
    ),
  ];
  backend.numResizes = 0;
  run.submit(...requests).finish();
  checkContents(run, requests);
  assertEquals([run.core.stats().preemptions, backend.pages.size], [0, 2]);
  // Once for the slots, and once when the longest row has grown out of them.
  assertEquals(backend.numResizes, 2);
});

Deno.test("tokens that are drafted count too", () => {
  const run = runOn(new SparseBackend(budgetFor(128)), {}, new Speculation([new OracleDrafter(4, () => 7)], { isAdaptive: false }));
  const requests = ["a", "b"].map((id, i) => request(id, { promptIds: Array(10 + i).fill(i), maxTokens: 80 }));
  run.submit(...requests).finish();
  checkContents(run, requests);
});

Deno.test("page tables of a row count as its memory", () => {
  const budget = new MemoryBudget(memoryCosts({ weightBytes: 1, kvBytesPerToken: 2, kvBytesPerSlot: 5, tableBytesPerSlot: 4096 }, 0));
  assertEquals(budget.totalBytes({ slots: 3, numTokens: 10, longest: 10 }), 1 + 10 * 2 + 3 * (5 + 4096));
});
