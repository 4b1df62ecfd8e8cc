import { assertEquals } from "@std/assert";
import { strftime } from "../../src/tokenizer/strftime.ts";

Deno.test("Dates are written as Python writes them in English", () => {
  const date = new Date(2026, 2, 5, 0, 7, 9);
  assertEquals(strftime(date, "%A %a %B %b %d %-d %e %Y %y"), "Thursday Thu March Mar 05 5  5 2026 26");
  assertEquals(strftime(date, "%H:%M:%S %I %p %T %F %j %u %w"), "00:07:09 12 AM 00:07:09 2026-03-05 064 4 4");
  assertEquals(strftime(new Date(2026, 10, 29, 13), "%I %-I %p %j 100%% %Q"), "01 1 PM 333 100% %Q");
});
