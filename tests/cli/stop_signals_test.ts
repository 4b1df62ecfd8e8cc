import { assertEquals } from "@std/assert";
import { StopSignals } from "../../src/cli/stop_signals.ts";

Deno.test("a signal that comes again within a second does not count, a later one and another one do", () => {
  let nowMs = 5;
  const signals = new StopSignals(() => nowMs);
  const countAt = (ms: number, name: string): number | null => {
    nowMs = ms;
    return signals.count(name);
  };
  assertEquals([countAt(5, "SIGINT"), countAt(55, "SIGINT"), countAt(1004, "SIGINT")], [1, null, null]);
  // The second Ctrl-C comes twice as well, and must not be the third, which ends the process.
  assertEquals([countAt(1005, "SIGINT"), countAt(1055, "SIGINT")], [2, null]);
  assertEquals(countAt(1056, "SIGTERM"), 3);
});
