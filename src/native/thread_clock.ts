/** The processor time of the calling thread, for benchmarks. Deno has no clock for it that is finer than 10 ms. */

/** CLOCK_THREAD_CPUTIME_ID, by system, and the C library that is loaded already. */
const CLOCKS = { linux: { library: "libc.so.6", id: 3 }, darwin: { library: "libSystem.B.dylib", id: 16 } } as const;

const SYMBOLS = { clock_gettime: { parameters: ["i32", "buffer"], result: "i32" } } as const;

export class ThreadClock implements Disposable {
  readonly #library: Deno.DynamicLibrary<typeof SYMBOLS>;
  readonly #id: number;
  /** Seconds and nanoseconds. */
  readonly #time = new BigInt64Array(2);

  /** @throws {Error} on systems other than Linux and macOS. */
  constructor() {
    const { os } = Deno.build;
    if (os !== "linux" && os !== "darwin") {
      throw new Error(`No clock of a thread's processor time is known for ${os}, only for linux and darwin`);
    }
    this.#id = CLOCKS[os].id;
    this.#library = Deno.dlopen(CLOCKS[os].library, SYMBOLS);
  }

  /** Milliseconds that the calling thread has computed; waiting does not count. */
  nowMs(): number {
    const status = this.#library.symbols.clock_gettime(this.#id, this.#time);
    if (status !== 0) throw new Error(`clock_gettime(${this.#id}) gave ${status}`);
    return 1000 * Number(this.#time[0]) + Number(this.#time[1]) / 1e6;
  }

  [Symbol.dispose](): void {
    this.#library.close();
  }
}
