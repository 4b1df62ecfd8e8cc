import type { NativeLibrary } from "./library.ts";

/** A copy of some tokens of one cache slot. Made by `savePage` and `importPage` of `NativeCache`, whose cache closes it at the latest. */
export class NativePage {
  #handle: Deno.PointerValue;
  readonly #library: NativeLibrary;
  readonly #onClose: (page: NativePage) => void;
  readonly bytes: number;

  constructor(library: NativeLibrary, handle: Deno.PointerValue, onClose: (page: NativePage) => void) {
    this.#library = library;
    this.#handle = handle;
    this.#onClose = onClose;
    const out = new BigInt64Array(1);
    library.check("rl_page_bytes", library.symbols.rl_page_bytes(this.unsafeHandle, out));
    this.bytes = Number(out[0]);
  }

  /** The C handle, for other classes of the fence. @throws {TypeError} when closed. */
  get unsafeHandle(): Deno.PointerObject {
    if (this.#handle === null) throw new TypeError("Cannot use a page: it is closed");
    return this.#handle;
  }

  /** Copies what it holds, `bytes` of it, to the beginning of `target`. */
  export(target: Uint8Array<ArrayBuffer>): void {
    const status = this.#library.symbols.rl_page_export(this.unsafeHandle, target, BigInt(target.byteLength));
    this.#library.check("rl_page_export", status);
  }

  close(): void {
    if (this.#handle === null) return;
    const handle = this.#handle;
    this.#handle = null;
    this.#onClose(this);
    this.#library.check("rl_page_free", this.#library.symbols.rl_page_free(handle));
  }
}
