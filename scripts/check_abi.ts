/** Compares the C header with the table that Deno calls it by. What differs is a crash or worse, so it is an error here. */
import { ABI_VERSION, STRUCT_BYTES, SYMBOLS, TOP_LOGPROBS_MAX } from "../src/native/symbols.ts";
import { type Header, parseHeader } from "./abi/c_header.ts";

/** The TypeScript side: the table, and the `C type name` comments of its parameters, in order, for each symbol. */
export interface Bindings {
  readonly abiVersion: number;
  readonly topLogprobsMax: number;
  readonly structBytes: Readonly<Record<string, number>>;
  readonly symbols: Readonly<Record<string, { readonly parameters: readonly unknown[]; readonly result: unknown }>>;
  readonly comments: ReadonlyMap<string, readonly string[]>;
}

const NATIVE_TYPES: Readonly<Record<string, string>> = {
  int32_t: "i32",
  uint32_t: "u32",
  int64_t: "i64",
  uint64_t: "u64",
  float: "f32",
  double: "f64",
};

/** Every difference, as a sentence. */
export function compareAbi(header: Header, bindings: Bindings): string[] {
  const names = new Set([...header.functions.keys(), ...Object.keys(bindings.symbols)]);
  return [
    ...compareNumber("RL_ABI_VERSION", header.constants.get("RL_ABI_VERSION"), bindings.abiVersion),
    ...compareNumber("RL_TOP_LOGPROBS_MAX", header.constants.get("RL_TOP_LOGPROBS_MAX"), bindings.topLogprobsMax),
    ...[...header.structBytes].flatMap(([name, numBytes]) => compareNumber(`bytes of ${name}`, numBytes, bindings.structBytes[name])),
    ...[...names].flatMap((name) => compareSymbol(name, header, bindings)),
  ];
}

/** The trailing comments of the parameter lines, for each symbol of the table's source text. */
export function parameterComments(source: string): Map<string, string[]> {
  const comments = new Map<string, string[]>();
  for (const [, name = "", body = ""] of source.matchAll(/^ {2}(rl_\w+): \{\n([\s\S]*?)\n {2}\},/gm)) {
    comments.set(name, [...body.matchAll(/^\s*"\w+", \/\/ (.*)$/gm)].map((match) => match[1] ?? ""));
  }
  return comments;
}

function compareSymbol(name: string, header: Header, bindings: Bindings): string[] {
  const inHeader = header.functions.get(name);
  const inTable = bindings.symbols[name];
  if (!inHeader) return [`${name} is in the table but not in the header`];
  if (!inTable) return [`${name} is in the header but not in the table`];
  const wanted = inHeader.parameters.map(({ type }) => nativeType(type, header));
  const declared = inHeader.parameters.map(({ type, name }) => `${type} ${name}`);
  const comments = bindings.comments.get(name) ?? [];
  return [
    ...compareText(`${name} returns`, nativeType(inHeader.result, header), `${inTable.result}`),
    ...compareText(`${name} takes`, wanted.join(", "), inTable.parameters.join(", ")),
    ...compareText(`${name}'s parameters are`, declared.join(", "), comments.join(", ")),
  ];
}

/** Handles are passed as pointers; everything else behind a `*` is memory of the caller. */
function nativeType(type: string, header: Header): string {
  const bare = type.replace(/^const /, "");
  if (!bare.endsWith("*")) return NATIVE_TYPES[bare] ?? `unknown type ${bare}`;
  return header.opaqueTypes.has(bare.slice(0, -1)) ? "pointer" : "buffer";
}

function compareNumber(what: string, header: number | undefined, table: number | undefined): string[] {
  return compareText(`${what} is`, `${header}`, `${table}`);
}

function compareText(what: string, header: string, table: string): string[] {
  return header === table ? [] : [`${what} ${header} in the header, ${table} in the table`];
}

/** Reads both sides from this checkout. */
export async function readAbi(): Promise<{ header: Header; bindings: Bindings }> {
  const read = (path: string): Promise<string> => Deno.readTextFile(new URL(path, import.meta.url));
  const tables = ["symbols.ts", "page_symbols.ts", "sampling_symbols.ts"].map((name) => read(`../src/native/${name}`));
  const comments = parameterComments((await Promise.all(tables)).join("\n"));
  const bindings = { abiVersion: ABI_VERSION, topLogprobsMax: TOP_LOGPROBS_MAX, structBytes: STRUCT_BYTES, symbols: SYMBOLS, comments };
  return { header: parseHeader(await read("../ffi/include/rowlock.h")), bindings };
}

if (import.meta.main) {
  const { header, bindings } = await readAbi();
  const differences = compareAbi(header, bindings);
  for (const difference of differences) console.error(difference);
  if (differences.length > 0) Deno.exit(1);
  console.log(`The header and the table agree on ${header.functions.size} symbols and ${header.structBytes.size} structs`);
}
