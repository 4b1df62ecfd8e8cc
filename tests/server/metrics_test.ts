import { assertEquals } from "@std/assert";
import { NO_DISK } from "../../src/engine/disk/page_disk.ts";
import { type EngineStats, NO_STATS } from "../../src/engine/messages.ts";
import { NO_PREFIXES } from "../../src/engine/prefix_cache.ts";
import { ServerMetrics } from "../../src/server/metrics.ts";

function page(stats: Partial<EngineStats>, weightBytes: number, numBodyBytes: number): string {
  const engine = { health: { ok: true, reason: "ok" }, stats: { ...NO_STATS, ...stats }, onStep: () => () => {}, facts: { weightBytes } };
  return new ServerMetrics(engine, () => 0, () => numBodyBytes).render();
}

Deno.test("bytes are whole numbers, also where they are a share of something", () => {
  const text = page(
    {
      memoryLimitBytes: 19_274_786_406.4,
      kvBytes: 1.5,
      mlxActiveBytes: 2.25,
      mlxPeakBytes: 3.5,
      prefix: { ...NO_PREFIXES, bytes: 4.1, disk: { ...NO_DISK, heldBytes: 5.9 } },
    },
    6.2,
    7.3,
  );
  const values = [...text.matchAll(/^rowlock_(\w+_bytes) (\S+)$/gm)].map(([, name, value]) => [name, value]);
  assertEquals(Object.fromEntries(values), {
    prefix_bytes: "4",
    prefix_disk_bytes: "6",
    memory_limit_bytes: "19274786406",
    kv_bytes: "2",
    mlx_active_bytes: "2",
    mlx_peak_bytes: "4",
    weight_bytes: "6",
    body_bytes: "7",
  });
});
