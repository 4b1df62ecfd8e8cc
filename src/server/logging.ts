/** One line per request, for a person or as JSON. */
export type LogFormat = "text" | "json";

/** What is known of a request when it has ended. */
export interface RequestRecord {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
  /** "disconnected" when the client left before the end; the error's code when there was one. */
  readonly outcome: string;
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  readonly queueMs?: number | null;
  readonly prefillMs?: number | null;
  readonly decodeMs?: number | null;
  readonly tokensPerSecond?: number | null;
  /** For the operator only: the text of an unexpected error. */
  readonly error?: string;
}

/** The line, without the line feed. Whatever the client put into it is escaped, so that it stays one line and moves no cursor. */
export function formatRecord(record: RequestRecord, format: LogFormat, nowMs: number): string {
  const time = new Date(nowMs).toISOString();
  if (format === "json") return escapeControls(JSON.stringify({ time, ...record }));
  const parts = [
    time.slice(11, 19),
    record.method,
    record.path,
    String(record.status),
    `${Math.round(record.durationMs)} ms`,
    record.outcome === "ok" ? null : record.outcome,
    record.promptTokens === undefined ? null : `prompt ${record.promptTokens}`,
    record.completionTokens === undefined ? null : `generated ${record.completionTokens}`,
    milliseconds("queue", record.queueMs),
    milliseconds("prefill", record.prefillMs),
    milliseconds("decode", record.decodeMs),
    typeof record.tokensPerSecond === "number" ? `${record.tokensPerSecond.toFixed(1)} tok/s` : null,
    record.requestId,
    record.error === undefined ? null : `error: ${record.error}`,
  ];
  return escapeControls(parts.filter((part) => part !== null).join("  "));
}

function milliseconds(name: string, value: number | null | undefined): string | null {
  return typeof value === "number" ? `${name} ${Math.round(value)} ms` : null;
}

/** Line feeds, escape sequences and direction marks become visible. */
function escapeControls(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => `\\u${char.codePointAt(0)!.toString(16).padStart(4, "0")}`);
}
