import type { NativeLibrary } from "./library.ts";
import { NativePage } from "./native_page.ts";
import { PAGE_STATE } from "./structs.ts";

export interface NativeCacheInfo {
  readonly slots: number;
  /** Tokens that one slot has room for. */
  readonly capacity: number;
  /** Of a sparse cache those of the tokens that were written and not released. */
  readonly bytes: number;
}

/** Makes the C handle: writes it to `out` and returns the status of the call. */
export interface CacheMaker {
  readonly call: string;
  readonly make: (out: BigUint64Array<ArrayBuffer>) => number;
}

/** KV and recurrent state of all slots of one model or drafter. Made by their `newCache`. */
export class NativeCache {
  #handle: Deno.PointerValue;
  readonly #library: NativeLibrary;
  readonly #onClose: () => void;
  readonly #info = new BigInt64Array(3);
  readonly #pages = new Set<NativePage>();

  constructor(library: NativeLibrary, maker: CacheMaker, onClose: () => void) {
    const out = new BigUint64Array(1);
    library.check(maker.call, maker.make(out));
    this.#library = library;
    this.#onClose = onClose;
    this.#handle = Deno.UnsafePointer.create(out[0] ?? 0n);
  }

  /** The C handle, for other classes of the fence. @throws {TypeError} when closed. */
  get unsafeHandle(): Deno.PointerObject {
    if (this.#handle === null) throw new TypeError("Cannot use a cache: it is closed");
    return this.#handle;
  }

  /** Tells how far it may grow, before the first `resize`: a sparse cache takes address space for that, so that growing copies nothing. */
  reserve(slots: number, capacity: number): void {
    this.#library.check("rl_cache_reserve", this.#library.symbols.rl_cache_reserve(this.unsafeHandle, slots, capacity));
  }

  /** Room for `slots` slots of `capacity` tokens; keeps what still fits. (0, 0) gives all memory back. */
  resize(slots: number, capacity: number): void {
    this.#library.check("rl_cache_resize", this.#library.symbols.rl_cache_resize(this.unsafeHandle, slots, capacity));
  }

  /** Moves the first `length` tokens of slot `from` over slot `to`; what `from` holds then is not defined. */
  move(from: number, to: number, length: number): void {
    this.#library.check("rl_cache_move", this.#library.symbols.rl_cache_move(this.unsafeHandle, from, to, length));
  }

  /** Fills slot `slot` with zeros: a NaN that a row left there would reach the next one. */
  clear(slot: number): void {
    this.#library.check("rl_cache_clear", this.#library.symbols.rl_cache_clear(this.unsafeHandle, slot));
  }

  /** The row of slot `slot` has left: a sparse cache gives its memory back at once, others do nothing. */
  release(slot: number): void {
    this.#library.check("rl_cache_release", this.#library.symbols.rl_cache_release(this.unsafeHandle, slot));
  }

  /**
   * Undoes verified tokens in recurrent states: slot `slots[i]` goes back to its state after the first `kept[i]` (>= 1) tokens of the last
   * forward, which had `ROW_VERIFY`; verified slots that are not named keep all. Once after a forward, before any other call on the cache.
   * A cache of keys and values alone accepts it and does nothing: there the row's next offset is enough.
   */
  keep(slots: Int32Array<ArrayBuffer>, kept: Int32Array<ArrayBuffer>, numRows: number): void {
    const status = this.#library.symbols.rl_cache_keep(this.unsafeHandle, slots, kept, numRows);
    if (status !== 0) this.#library.check("rl_cache_keep", status);
  }

  /**
   * Copies tokens [start, start + length) of slot `slot` to a page; waits for it. `hasState`: with the recurrent layers' states, which stand for
   * all of the row's tokens, so they must be those after token start + length - 1.
   */
  savePage(slot: number, start: number, length: number, hasState: boolean): NativePage {
    const out = new BigUint64Array(1);
    const flags = hasState ? PAGE_STATE : 0;
    this.#library.check("rl_page_save", this.#library.symbols.rl_page_save(this.unsafeHandle, slot, start, length, flags, out));
    return this.#keepPage(out);
  }

  /**
   * A page of `length` tokens from the bytes that `NativePage.export` gave for one, in this same library and with the same model; copies them.
   * @throws {NativeError} when they are not exactly as many as such a page has. What they say is not looked at.
   */
  importPage(bytes: Uint8Array<ArrayBuffer>, length: number, hasState: boolean): NativePage {
    const out = new BigUint64Array(1);
    const flags = hasState ? PAGE_STATE : 0;
    const { symbols } = this.#library;
    const status = symbols.rl_page_import(this.unsafeHandle, length, flags, bytes, BigInt(bytes.byteLength), out);
    this.#library.check("rl_page_import", status);
    return this.#keepPage(out);
  }

  #keepPage(out: BigUint64Array): NativePage {
    const page = new NativePage(this.#library, Deno.UnsafePointer.create(out[0] ?? 0n), (closed) => void this.#pages.delete(closed));
    this.#pages.add(page);
    return page;
  }

  /** Writes a page to slot `slot` from token `start` on, which is where it was saved from; waits for it. */
  loadPage(page: NativePage, slot: number, start: number): void {
    this.#library.check("rl_page_load", this.#library.symbols.rl_page_load(this.unsafeHandle, page.unsafeHandle, slot, start));
  }

  info(): NativeCacheInfo {
    this.#library.check("rl_cache_info", this.#library.symbols.rl_cache_info(this.unsafeHandle, this.#info));
    return { slots: Number(this.#info[0]), capacity: Number(this.#info[1]), bytes: Number(this.#info[2]) };
  }

  close(): void {
    if (this.#handle === null) return;
    for (const page of [...this.#pages]) page.close();
    const handle = this.#handle;
    this.#handle = null;
    this.#onClose();
    this.#library.check("rl_cache_free", this.#library.symbols.rl_cache_free(handle));
  }
}
