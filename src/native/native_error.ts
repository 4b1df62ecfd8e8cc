/** The library's `RL_ERR_*` codes by what they mean. */
export const NATIVE_ERROR_CODES = {
  argument: -1,
  thread: -2,
  model: -3,
  mlx: -4,
  memory: -5,
} as const;

export type NativeErrorKind = keyof typeof NATIVE_ERROR_CODES | "unknown";

/** A native call that did not return `RL_OK`. */
export class NativeError extends Error {
  override name = "NativeError";
  readonly kind: NativeErrorKind;

  /** `code` is the returned status, `text` the library's last error. */
  constructor(readonly call: string, readonly code: number, text: string) {
    super(`${call} failed (${kindOf(code)}): ${text === "" ? `status ${code}, no text` : text}`);
    this.kind = kindOf(code);
  }
}

function kindOf(code: number): NativeErrorKind {
  for (const [kind, value] of Object.entries(NATIVE_ERROR_CODES)) {
    if (value === code) return kind as NativeErrorKind;
  }
  return "unknown";
}
