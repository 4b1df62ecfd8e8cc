import type { TensorEntry } from "../native/model_spec.ts";
import { ModelFileError } from "./model_file_error.ts";

/** Whether the tensors of one file have distinct names, lie inside it and nowhere overlap. @throws {ModelFileError} */
export function checkRegions(tensors: readonly TensorEntry[], path: string, fileBytes: number): void {
  const fail = (problem: string): never => {
    throw new ModelFileError(`Cannot read ${path}: ${problem}`);
  };
  const names = new Set<string>();
  for (const { name, offset, byteLength } of tensors) {
    if (names.has(name)) fail(`tensor ${name} occurs twice`);
    names.add(name);
    if (offset + byteLength > fileBytes) fail(`tensor ${name} ends at byte ${offset + byteLength}, but the file has ${fileBytes}`);
  }
  const inOrder = [...tensors].sort((a, b) => a.offset - b.offset || a.byteLength - b.byteLength);
  for (let i = 1; i < inOrder.length; i++) {
    const before = inOrder[i - 1]!;
    const tensor = inOrder[i]!;
    if (tensor.offset < before.offset + before.byteLength) {
      fail(`tensors ${before.name} and ${tensor.name} overlap at byte ${tensor.offset}`);
    }
  }
}
