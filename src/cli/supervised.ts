/** What a serving process does when a supervisor started it. */
import { ENGINE_LOST, SUPERVISED } from "./supervise.ts";

const CHECK_MS = 5_000;
const CHECK_TIMEOUT_MS = 4_000;
/** An engine that is started again takes a while; one that is down for longer than this does not come back. */
const LOST_MS = 60_000;

export function isSupervised(): boolean {
  return Boolean(Deno.env.get(SUPERVISED));
}

/** Calls `stop` when the supervisor is gone, so that no server is left behind that nobody looks after. */
export async function watchSupervisor(stop: () => void): Promise<void> {
  const buffer = new Uint8Array(64);
  while (await Deno.stdin.read(buffer) !== null) { /* Nothing is ever sent: only the end matters. */ }
  stop();
}

export interface HealthWatchOptions {
  /** Whether requests can be served now. */
  readonly isHealthy: () => Promise<boolean>;
  readonly onLost: () => void;
  readonly now?: () => number;
}

/** Follows a server's health: `check` is called from time to time, and `onLost` when the server has been down for too long. */
export class HealthWatch {
  #downSinceMs: number | null = null;
  constructor(readonly options: HealthWatchOptions) {}

  async check(): Promise<void> {
    const nowMs = (this.options.now ?? (() => performance.now()))();
    if (await this.options.isHealthy()) this.#downSinceMs = null;
    else if (nowMs - (this.#downSinceMs ??= nowMs) >= LOST_MS) this.options.onLost();
  }
}

/** Ends the process when the server at `url` has lost its engine for good: the supervisor starts another one. Gives what ends the watch. */
export function watchHealth(url: string): () => void {
  const watch = new HealthWatch({
    isHealthy: () => fetch(`${url}/health`, { signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) }).then(drained, () => false),
    onLost: () => {
      console.error("rowlock: The engine is lost; ending, to be started again");
      Deno.exit(ENGINE_LOST);
    },
  });
  const timer = setInterval(() => void watch.check(), CHECK_MS);
  Deno.unrefTimer(timer);
  return () => clearInterval(timer);
}

async function drained(response: Response): Promise<boolean> {
  await response.body?.cancel();
  return response.ok;
}
