/** Which requests are logged. */
import type { RequestRecord } from "../server/logging.ts";

/** From the most to the least talkative. */
export const LOG_LEVELS = ["info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Takes the lines of requests that are at least as grave as `level`: answers of 500 and up are errors, of 400 and up warnings. */
export function requestLog(level: LogLevel, write: (line: string) => void): (line: string, record: RequestRecord) => void {
  const least = LOG_LEVELS.indexOf(level);
  return (line, record) => {
    if (LOG_LEVELS.indexOf(gravity(record)) >= least) write(line);
  };
}

/** A stream that broke has sent status 200 long before; its error tells. */
function gravity({ status, error }: RequestRecord): LogLevel {
  if (status >= 500 || error !== undefined) return "error";
  return status >= 400 ? "warn" : "info";
}
