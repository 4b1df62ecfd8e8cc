import type { Exchange } from "./exchange.ts";

/** The requests that are being answered. */
export class OpenExchanges {
  readonly #exchanges = new Set<Exchange>();
  #waiting: (() => void)[] = [];

  add(exchange: Exchange): void {
    this.#exchanges.add(exchange);
  }

  delete(exchange: Exchange): void {
    this.#exchanges.delete(exchange);
    if (this.#exchanges.size > 0) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Resolves when there is none. */
  empty(): Promise<void> {
    if (this.#exchanges.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
