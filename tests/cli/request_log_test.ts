import { assertEquals } from "@std/assert";
import { LOG_LEVELS, type LogLevel, requestLog } from "../../src/cli/request_log.ts";
import type { RequestRecord } from "../../src/server/logging.ts";

const RECORD: RequestRecord = { requestId: "r", method: "GET", path: "/", status: 200, durationMs: 1, outcome: "ok" };

function logged(level: LogLevel): string[] {
  const lines: string[] = [];
  const log = requestLog(level, (line) => lines.push(line));
  for (const status of [200, 204, 400, 429, 500, 503]) log(`${status}`, { ...RECORD, status });
  log("broken stream", { ...RECORD, error: "the engine stopped" });
  return lines;
}

Deno.test("each level logs its own requests and all that are graver, and a stream that broke is an error whatever its status", () => {
  assertEquals(LOG_LEVELS.map(logged), [
    ["200", "204", "400", "429", "500", "503", "broken stream"],
    ["400", "429", "500", "503", "broken stream"],
    ["500", "503", "broken stream"],
  ]);
});
