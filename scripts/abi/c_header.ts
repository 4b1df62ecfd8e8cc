/** Reads the part of C that `ffi/include/rowlock.h` is written in. */

export interface Parameter {
  readonly name: string;
  /** As `type *` is spelled in the header, single spaces: `const int32_t*`. */
  readonly type: string;
}

export interface HeaderFunction {
  readonly result: string;
  readonly parameters: readonly Parameter[];
}

export interface Header {
  /** Values of `#define NAME number` and of enumerators. */
  readonly constants: ReadonlyMap<string, number>;
  readonly functions: ReadonlyMap<string, HeaderFunction>;
  /** Bytes of each struct whose fields are public. */
  readonly structBytes: ReadonlyMap<string, number>;
  /** Types that are only declared: handles. */
  readonly opaqueTypes: ReadonlySet<string>;
}

const FIELD_BYTES: Readonly<Record<string, number>> = { int32_t: 4, uint32_t: 4, float: 4, int64_t: 8, uint64_t: 8, double: 8, uint8_t: 1 };

/** @throws {Error} for a struct field whose type it does not know. */
export function parseHeader(text: string): Header {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, " ").replace(/\/\/.*$/gm, " ");
  return {
    constants: new Map([...defines(code), ...enumerators(code)]),
    functions: new Map(functions(code)),
    structBytes: new Map(structs(code)),
    opaqueTypes: new Set([...code.matchAll(/typedef\s+struct\s+(\w+)\s+\1\s*;/g)].map((match) => match[1] ?? "")),
  };
}

function* defines(code: string): Generator<[string, number]> {
  for (const [, name = "", value] of code.matchAll(/^#define\s+(\w+)\s+(-?\d+)\s*$/gm)) yield [name, Number(value)];
}

function* enumerators(code: string): Generator<[string, number]> {
  for (const [, body = ""] of code.matchAll(/enum\s*\{([^}]*)\}/g)) {
    for (const [, name = "", value] of body.matchAll(/(\w+)\s*=\s*(-?\d+)/g)) yield [name, Number(value)];
  }
}

function* functions(code: string): Generator<[string, HeaderFunction]> {
  for (const [, result = "", name = "", parameters = ""] of code.matchAll(/RL_API\s+(\w+)\s+(\w+)\s*\(([^)]*)\)\s*;/g)) {
    yield [name, { result, parameters: parseParameters(parameters) }];
  }
}

function parseParameters(text: string): Parameter[] {
  if (text.trim() === "void" || text.trim() === "") return [];
  return text.split(",").map((parameter) => {
    const match = /^(.*?)(\w+)$/s.exec(parameter.trim());
    const type = (match?.[1] ?? "").replace(/\s+/g, " ").replace(/\s*\*\s*/g, "*").trim();
    return { type, name: match?.[2] ?? "" };
  });
}

function* structs(code: string): Generator<[string, number]> {
  for (const [, body = "", name = ""] of code.matchAll(/typedef\s+struct\s+\w*\s*\{([^}]*)\}\s*(\w+)\s*;/g)) {
    yield [name, sizeOf(name, body)];
  }
}

/** Every field is aligned to its own size, and the whole to its widest field, as all our targets do. */
function sizeOf(struct: string, body: string): number {
  let [offset, widest] = [0, 1];
  for (const [, type = "", names = ""] of body.matchAll(/(\w+)\s+([\w\s,]+);/g)) {
    const numBytes = FIELD_BYTES[type];
    if (numBytes === undefined) {
      throw new Error(`${struct} has a field of type ${type}, expected one of ${Object.keys(FIELD_BYTES).join(", ")}`);
    }
    for (const _ of names.split(",")) offset = Math.ceil(offset / numBytes) * numBytes + numBytes;
    widest = Math.max(widest, numBytes);
  }
  return Math.ceil(offset / widest) * widest;
}
