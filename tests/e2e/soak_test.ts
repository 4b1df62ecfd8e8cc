/** Random settings, cancels and disconnects, after which everything is back where it began. `deno task soak` makes a long run of it. */
import { assert, assertEquals } from "@std/assert";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";
import { type Outcome, SoakRequests } from "./soak_requests.ts";

const NUM_REQUESTS = Number(Deno.env.get("ROWLOCK_SOAK_REQUESTS") ?? 60);
const SECONDS = Number(Deno.env.get("ROWLOCK_SOAK_SECONDS") ?? 60);
const SEED = Number(Deno.env.get("ROWLOCK_SOAK_SEED") ?? 1);
const NUM_CLIENTS = 24;
/** What the heaps of this process, client and server, may grow by: garbage that is not collected yet. */
const MAX_HEAP_GROWTH_BYTES = 64 * 2 ** 20;
/** Small tables that the longest row so far needed; the KV of a single row that stays behind is more, and so are 600 bytes of each of 2,000 requests. */
const MAX_KEPT_BYTES = 2 ** 20;
/** Connections that a client which left has not closed yet. */
const SPARE_HANDLES = 8;

/** A greedy answer, alone. */
async function control(server: RealServer): Promise<Json> {
  const { text, tokenIds, finishReason } = await server.chat("Name three colours.", { temperature: 0, max_tokens: 12 });
  return { text, tokenIds, finishReason };
}

interface Figures {
  readonly gauges: Readonly<Record<string, number>>;
  readonly mlxBytes: number;
  readonly heapBytes: number;
  /** Open files and sockets; null where the system does not tell. */
  readonly numHandles: number | null;
}

const GAUGES = ["rowlock_rows_active", "rowlock_rows_waiting", "rowlock_sequences_live", "rowlock_kv_bytes"];

/** Where a cache takes memory for its rows alone (isKvSparse), it is no array of MLX's, and nothing of it is left when they have gone. */
const IS_KV_SPARSE = Deno.build.os === "linux";

/** As soon as the engine has given the cache back, which it does when it has had nothing to do for a while. Called right after a request. */
async function figuresOf(server: RealServer): Promise<Figures> {
  const withCache = await server.metric("rowlock_mlx_active_bytes");
  for (const name of GAUGES) await server.untilMetric(name, 0, 20_000);
  const endMs = performance.now() + 20_000;
  while (!IS_KV_SPARSE && await server.metric("rowlock_mlx_active_bytes") >= withCache) {
    assert(performance.now() < endMs, `MLX still holds ${withCache} bytes: the cache was not given back`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const gauges = Object.fromEntries(await Promise.all(GAUGES.map(async (name) => [name, await server.metric(name)])));
  return {
    gauges,
    mlxBytes: await server.metric("rowlock_mlx_active_bytes"),
    heapBytes: Deno.memoryUsage().heapUsed,
    numHandles: countHandles(),
  };
}

function countHandles(): number | null {
  return Deno.build.os === "linux" ? [...Deno.readDirSync("/proc/self/fd")].length : null;
}

/** Sends until all are sent or the time is over. */
async function soak(server: RealServer): Promise<Map<Outcome, number>> {
  const requests = new SoakRequests(server, SEED);
  const outcomes = new Map<Outcome, number>();
  const endMs = performance.now() + SECONDS * 1000;
  let numSent = 0;
  await Promise.all(Array.from({ length: NUM_CLIENTS }, async () => {
    while (numSent < NUM_REQUESTS && performance.now() < endMs) {
      numSent++;
      const outcome = await requests.send();
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  }));
  return outcomes;
}

Deno.test(`after ${NUM_REQUESTS} random requests, many of them left, rows, slots, memory and handles are back where they began`, async () => {
  await withRealServer({ maxBatch: 8 }, async (server) => {
    const expected = await control(server);
    // The first requests open the connections that are used again later.
    await Promise.all(Array.from({ length: NUM_CLIENTS }, () => server.getJson("/v1/models")));
    const before = await figuresOf(server);
    const startMs = performance.now();
    const outcomes = await soak(server);
    const numDone = [...outcomes.values()].reduce((sum, count) => sum + count, 0);
    console.log(
      `${numDone} requests in ${Math.round((performance.now() - startMs) / 1000)} s, seed ${SEED}: ${JSON.stringify([...outcomes])}`,
    );
    assert((outcomes.get("answered") ?? 0) > 0.3 * numDone && (outcomes.get("left") ?? 0) > 0 && (outcomes.get("refused") ?? 0) > 0);
    assertEquals(await control(server), expected);
    const after = await figuresOf(server);
    assertEquals(after.gauges, before.gauges);
    const kept = after.mlxBytes - before.mlxBytes;
    assert(kept <= MAX_KEPT_BYTES, `MLX holds ${kept} bytes more than at the beginning, allowed are ${MAX_KEPT_BYTES}`);
    const growth = after.heapBytes - before.heapBytes;
    assert(growth < MAX_HEAP_GROWTH_BYTES, `the heap has grown by ${growth} bytes, allowed are ${MAX_HEAP_GROWTH_BYTES}`);
    if (before.numHandles !== null && after.numHandles !== null) {
      assert(
        after.numHandles <= before.numHandles + SPARE_HANDLES,
        `${after.numHandles} handles are open, at the beginning ${before.numHandles}`,
      );
    }
  });
});
