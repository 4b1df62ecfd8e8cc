import { assert, assertEquals, assertThrows } from "@std/assert";
import { KvRoom } from "../../src/engine/kv_room.ts";
import { FakeBackend } from "./fake_backend.ts";
import { CoreRun, request } from "./requests.ts";

function recorded(maxSlots: number): { room: KvRoom; sizes: [number, number][] } {
  const sizes: [number, number][] = [];
  return { room: new KvRoom({ resize: (slots, capacity) => sizes.push([slots, capacity]) }, maxSlots), sizes };
}

Deno.test("slots grow in powers of two up to the batch, capacity in multiples of 64 by at least a quarter", () => {
  const { room, sizes } = recorded(12);
  for (const [rows, longest] of [[1, 10], [2, 64], [3, 65], [9, 66], [9, 129], [9, 1000], [9, 1025]] as const) {
    if (room.needsGrowth(rows, longest)) room.resize(room.roomySize(rows, longest));
  }
  assertEquals(sizes, [[1, 64], [2, 64], [4, 128], [12, 128], [12, 192], [12, 1024], [12, 1280]]);
});

Deno.test("growing in one direction takes back what is more than twice too large in the other", () => {
  const { room, sizes } = recorded(16);
  room.resize(room.roomySize(1, 1500));
  room.resize(room.roomySize(8, 90));
  room.resize(room.roomySize(1, 1000));
  room.resize(room.roomySize(5, 800));
  assertEquals(sizes, [[1, 1536], [8, 256], [2, 1024], [8, 1024]]);
});

Deno.test("rows that fill the context stay within what was reserved at the start", () => {
  const refused: string[] = [];
  const backend = new class extends FakeBackend {
    override resize(slots: number, capacity: number): void {
      try {
        super.resize(slots, capacity);
      } catch (error) {
        refused.push(String(error));
        throw error;
      }
    }
  }();
  CoreRun.with(backend, { maxContext: 1000, maxBatch: 3 }).submit(...["a", "b", "c"].map((id) => request(id, { maxTokens: 990 }))).finish();
  assertEquals(refused, []);
  assertThrows(() => backend.resize(4, 64), RangeError);
});

Deno.test("a large maxTokens takes no memory in advance", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { maxContext: 100_000 }).submit(request("a", { maxTokens: 90_000 }));
  run.step();
  assertEquals([backend.slots.length, backend.capacity], [1, 64]);
});

Deno.test("a cache that stays four times too large shrinks, and keeps the rows' text", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { maxContext: 2000, prefillChunk: 256 });
  run.submit(request("small", { maxTokens: 600 }), request("large", { promptIds: Array(1500).fill(3), maxTokens: 2 }));
  while (run.core.scheduler.find("large")) run.step();
  assert(backend.capacity >= 1500);
  while (run.core.scheduler.find("small") && backend.capacity > 400) run.step();
  assert(run.core.scheduler.find("small"), "The cache did not shrink");
  run.finish();
  const alone = CoreRun.with(new FakeBackend(), { maxContext: 2000 }).submit(request("small", { maxTokens: 600 })).finish();
  assertEquals(run.tokens("small"), alone.tokens("small"));
});

Deno.test("a cache that is too large for a moment only keeps its size", () => {
  const { room, sizes } = recorded(16);
  room.resize(room.roomySize(16, 1000));
  for (let i = 0; i < 1000; i++) room.shrinkWhenLoose(i % 100 === 0 ? 16 : 1, 1000);
  assertEquals(sizes, [[16, 1024]]);
});
