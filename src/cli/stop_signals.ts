/** Which of the signals that end a server count. */

/** Through npx, one Ctrl-C comes from the terminal and from npx too, within 50 ms. */
const SAME_PRESS_MS = 1_000;

/** Counts signals. One that comes again within a second is the same one. */
export class StopSignals {
  #numSignals = 0;
  readonly #countedAtMs = new Map<string, number>();

  constructor(readonly now: () => number = () => performance.now()) {}

  /** @returns how many have come with this one; null when it does not count. */
  count(name: string): number | null {
    const nowMs = this.now();
    if (nowMs - (this.#countedAtMs.get(name) ?? -Infinity) < SAME_PRESS_MS) return null;
    this.#countedAtMs.set(name, nowMs);
    return ++this.#numSignals;
  }
}
