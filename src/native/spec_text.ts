/** A `ModelSpec` as the two texts that `rl_model_load` takes. */
import type { ModelSpec, TensorEntry } from "./model_spec.ts";

/** `key=value` lines. @throws {TypeError} when a key or value would break the line. */
export function configText(config: ModelSpec["config"]): string {
  return Object.entries(config).map(([key, value]) => {
    if (key === "" || /[=\n\0]/.test(key)) {
      throw new TypeError(`Cannot pass config key ${JSON.stringify(key)}: "=", line ends and NUL are not allowed`);
    }
    return `${key}=${field(String(value), `config value of "${key}"`)}\n`;
  }).join("");
}

/** `name<TAB>type<TAB>file<TAB>offset<TAB>bytes<TAB>dims` lines. @throws {TypeError} when a field would break the line. */
export function tensorsText(tensors: readonly TensorEntry[]): string {
  return tensors.map((tensor) => {
    const name = field(tensor.name, "tensor name");
    const numbers = [tensor.offset, tensor.byteLength, ...tensor.shape];
    if (!numbers.every((value) => Number.isSafeInteger(value) && value >= 0)) {
      throw new TypeError(
        `Cannot pass tensor "${name}": offset, bytes and shape must be whole numbers from 0, found ${numbers.join(", ")}`,
      );
    }
    const file = field(tensor.file, `file of tensor "${name}"`);
    return `${name}\t${field(tensor.type, `type of tensor "${name}"`)}\t${file}\t${tensor.offset}\t${tensor.byteLength}\t${
      tensor.shape.join(",")
    }\n`;
  }).join("");
}

/** The bytes of a C string. */
export function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text + "\0");
}

function field(text: string, what: string): string {
  if (/[\t\n\0]/.test(text)) {
    throw new TypeError(`Cannot pass the ${what} ${JSON.stringify(text)}: tabs, line ends and NUL are not allowed`);
  }
  return text;
}
