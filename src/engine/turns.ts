import { setImmediate } from "node:timers";

/**
 * Gives the event loop one turn, in which all messages that have arrived are delivered, then calls `next`. Costs about 10 µs.
 *
 * Both halves are needed. A port that posts to itself starves the worker's other messages for as long as it goes on; `setImmediate` alone
 * lets them in only every 25th turn or so; `setTimeout` takes at least a millisecond. The two together let them in every time.
 */
export class Turns {
  readonly #channel = new MessageChannel();
  #next: (() => void) | null = null;

  constructor() {
    this.#channel.port2.onmessage = () => setImmediate(() => this.#run());
  }

  /** One turn is pending at most; a second call before it replaces what it calls. */
  after(next: () => void): void {
    const isPending = this.#next !== null;
    this.#next = next;
    if (!isPending) this.#channel.port1.postMessage(null);
  }

  close(): void {
    this.#next = null;
    this.#channel.port1.close();
    this.#channel.port2.close();
  }

  #run(): void {
    const next = this.#next;
    this.#next = null;
    next?.();
  }
}
