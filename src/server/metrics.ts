/** What Rowlock counts, under the names of `/metrics`. */
import { type DiskFigures, NO_DISK } from "../engine/disk/page_disk.ts";
import type { Engine } from "../engine/engine.ts";
import type { DraftRound } from "../engine/messages.ts";
import { NO_PREFIXES, type PrefixFigures } from "../engine/prefix_cache.ts";
import { Counter, Histogram, type Metric, Reading } from "./prometheus.ts";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const DRAFTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32];
const ROWS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];

/** What is counted of an engine, or of several together. */
export type EngineFigures = Pick<Engine, "health" | "stats" | "onStep"> & { readonly facts: Pick<Engine["facts"], "weightBytes"> };

/** Numbers of one request, for histograms. */
export interface RequestTimes {
  readonly requestSeconds: number;
  /** null when no token came. */
  readonly firstTokenSeconds: number | null;
}

function gauge(name: string, help: string, read: () => number): Reading {
  return new Reading(name, help, "gauge", read);
}

/** What is a share of something may be a fraction; bytes are whole. */
function bytes(name: string, help: string, read: () => number): Reading {
  return gauge(name, help, () => Math.round(read()));
}

function total(name: string, help: string, read: () => number): Reading {
  return new Reading(name, help, "counter", read);
}

function stepReadings(engine: EngineFigures, numLiveSequences: () => number): Reading[] {
  return [
    gauge("rowlock_up", "1 when requests can be served.", () => engine.health.ok ? 1 : 0),
    gauge("rowlock_rows_active", "Rows that are generating or prefilling.", () => engine.stats.rowsActive),
    gauge("rowlock_rows_waiting", "Sequences that wait for a row.", () => engine.stats.rowsWaiting),
    gauge("rowlock_sequences_live", "Sequences admitted and not yet finished.", numLiveSequences),
    total("rowlock_steps_total", "Steps of the engine.", () => engine.stats.steps),
    total("rowlock_prompt_tokens_total", "Prompt tokens computed.", () => engine.stats.promptTokens),
    total("rowlock_generated_tokens_total", "Tokens generated.", () => engine.stats.generatedTokens),
    total(
      "rowlock_preemptions_total",
      "Rows that gave way because memory was short; they go on later with the same text.",
      () => engine.stats.preemptions,
    ),
  ];
}

function memoryReadings(engine: EngineFigures): Reading[] {
  return [
    bytes("rowlock_memory_limit_bytes", "Bytes that loaded models may take together.", () => engine.stats.memoryLimitBytes),
    bytes("rowlock_kv_bytes", "Bytes that the KV cache takes: of a sparse one those of the rows' tokens.", () => engine.stats.kvBytes),
    bytes(
      "rowlock_mlx_active_bytes",
      "Bytes that MLX has asked for; a sparse KV cache is none of it, and is in rowlock_kv_bytes.",
      () => engine.stats.mlxActiveBytes,
    ),
    bytes("rowlock_mlx_peak_bytes", "Most bytes that MLX has asked for.", () => engine.stats.mlxPeakBytes),
    bytes("rowlock_weight_bytes", "Bytes of the weights as they are computed with.", () => engine.facts.weightBytes),
  ];
}

function prefixReadings(prefix: () => PrefixFigures): Reading[] {
  return [
    total("rowlock_prefix_queries_total", "Requests that looked for their prompt's beginning in the prefix cache.", () => prefix().queries),
    total("rowlock_prefix_query_tokens_total", "Tokens of their prompts.", () => prefix().queryTokens),
    total("rowlock_prefix_hit_tokens_total", "Prompt tokens that were found there and not computed.", () => prefix().hitTokens),
    total("rowlock_prefix_evictions_total", "Pages that had to make room for others.", () => prefix().evictions),
    gauge("rowlock_prefix_pages", "Pages of the prefix cache.", () => prefix().pages),
    bytes("rowlock_prefix_bytes", "Bytes of the prefix cache.", () => prefix().bytes),
    ...diskReadings(() => prefix().disk ?? NO_DISK),
  ];
}

function diskReadings(disk: () => DiskFigures): Reading[] {
  return [
    total("rowlock_prefix_disk_hit_tokens_total", "Prompt tokens whose pages came from the disk.", () => disk().hitTokens),
    total("rowlock_prefix_disk_read_bytes_total", "Bytes of pages read from the disk.", () => disk().readBytes),
    total("rowlock_prefix_disk_written_bytes_total", "Bytes of pages written to the disk.", () => disk().writtenBytes),
    total("rowlock_prefix_disk_dropped_total", "Pages that were not written to the disk.", () => disk().numDropped),
    total("rowlock_prefix_disk_damaged_total", "Pages that were found damaged on the disk, and removed.", () => disk().numDamaged),
    bytes("rowlock_prefix_disk_bytes", "Bytes of all pages on the disk, whoever wrote them, counted every 30 s.", () => disk().heldBytes),
  ];
}

export class ServerMetrics {
  readonly #requests = new Counter("rowlock_requests_total", "Requests answered, by route, status and outcome.");
  readonly #disconnects = new Counter("rowlock_disconnects_total", "Requests whose client went away before the end.");
  readonly #stepRows = new Histogram("rowlock_step_rows", "Rows that took part in a step.", ROWS);
  readonly #stepSeconds = new Histogram("rowlock_step_seconds", "Time of one step.", SECONDS);
  readonly #firstToken = new Histogram("rowlock_time_to_first_token_seconds", "Time from a request's arrival to its first token.", SECONDS);
  readonly #request = new Histogram("rowlock_request_seconds", "Time from a generating request's arrival to its end.", SECONDS);
  readonly #draftTokens = new Counter("rowlock_draft_tokens_total", "Tokens drafted, by whether the model drew the same.");
  readonly #drafted = new Histogram("rowlock_draft_round_tokens", "Tokens drafted for one row in one round.", DRAFTS);
  readonly #accepted = new Histogram("rowlock_draft_round_accepted_tokens", "Tokens of a round's draft that the model drew too.", DRAFTS);
  readonly #metrics: readonly Metric[];
  readonly #stopListening: () => void;

  /**
   * @param numLiveSequences sequences that the server has handed to the engine.
   * @param numBodyBytes of request bodies that are being read.
   */
  constructor(engine: EngineFigures, numLiveSequences: () => number, numBodyBytes: () => number) {
    this.#metrics = [
      ...stepReadings(engine, numLiveSequences),
      ...prefixReadings(() => engine.stats.prefix ?? NO_PREFIXES),
      ...memoryReadings(engine),
      bytes("rowlock_body_bytes", "Bytes of request bodies that are being read or parsed.", numBodyBytes),
      this.#requests,
      this.#disconnects,
      this.#stepRows,
      this.#stepSeconds,
      this.#firstToken,
      this.#request,
      total(
        "rowlock_draft_failures_total",
        "Times that a drafter failed; its rows went on without drafts.",
        () => engine.stats.draftFailures?.count ?? 0,
      ),
      this.#draftTokens,
      this.#drafted,
      this.#accepted,
    ];
    this.#stopListening = engine.onStep((stats) => {
      this.#stepRows.observe(stats.stepRows);
      this.#stepSeconds.observe(stats.stepMs / 1000);
    });
  }

  /**
   * @param route a route's pattern, never the path that was sent: labels must stay few.
   * @param outcome "ok", or what went wrong: an answer may fail after its status has been sent.
   */
  countRequest(route: string, status: number, outcome: string): void {
    this.#requests.add(1, { route, status: String(status), outcome });
  }

  countDisconnect(): void {
    this.#disconnects.add(1);
  }

  observeGeneration({ requestSeconds, firstTokenSeconds }: RequestTimes): void {
    this.#request.observe(requestSeconds);
    if (firstTokenSeconds !== null) this.#firstToken.observe(firstTokenSeconds);
  }

  observeRound({ numDrafts, numAccepted }: DraftRound): void {
    this.#draftTokens.add(numAccepted, { outcome: "accepted" });
    this.#draftTokens.add(numDrafts - numAccepted, { outcome: "rejected" });
    this.#drafted.observe(numDrafts);
    this.#accepted.observe(numAccepted);
  }

  /** The page. */
  render(): string {
    return `${this.#metrics.map((metric) => metric.render()).join("\n")}\n`;
  }

  close(): void {
    this.#stopListening();
  }
}
