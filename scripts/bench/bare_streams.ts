/** Streams of bytes that are ready: what a token costs Deno's own HTTP server, below which nobody who uses it can get. */

/** As many as an event of a chat has. */
const EVENT = new Uint8Array(240).fill(0x20);

export class BareStreams implements AsyncDisposable {
  readonly #open = new Set<ReadableStreamDefaultController<Uint8Array>>();
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => new Response(this.#body()));

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/`;
  }

  /** Writes an event to every stream. */
  write(): void {
    for (const stream of this.#open) stream.enqueue(EVENT);
  }

  /** Ends the streams that are open. */
  end(): void {
    for (const stream of this.#open) stream.close();
    this.#open.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.end();
    await this.#server.shutdown();
  }

  #body(): ReadableStream<Uint8Array> {
    return new ReadableStream({ start: (controller) => void this.#open.add(controller) });
  }
}
