/** Random values from a JSON schema of the OpenAPI document: right ones, and ones that are wrong somewhere. */
import fc from "fast-check";
import type { Json } from "./fakes.ts";

const NUMBERS = [0, -0, 1, -1, 0.5, 1e-320, 2 ** 31, 2 ** 53, 2 ** 63, 1e308, -1e308, 128, 255, 257, 263, 264];
const STRINGS = [
  "",
  "Hi",
  " ",
  "\u0000",
  "\ufeff",
  "\u202e",
  "🎉",
  "e\u0301",
  "\ufffd",
  "<|im_end|>",
  "{{ 7*7 }}",
  "x".repeat(2000),
  "../../etc",
  "default",
];
const MAX_DEPTH = 6;

const wild: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, [], {}, "", [[]], [null], { a: [] }),
  fc.constantFrom<unknown>(...NUMBERS),
  fc.constantFrom<unknown>(...STRINGS),
  fc.jsonValue({ maxDepth: 3 }),
);

/** Values of `schema`; with `wildness` of 100 places (0 for none) a value that has nothing to do with it. */
export function valuesOf(schema: Json, document: Json, wildness: number, depth = 0): fc.Arbitrary<unknown> {
  const right = rightValues(schema, document, wildness, depth);
  if (wildness === 0) return right;
  return fc.oneof({ weight: 100 - wildness, arbitrary: right }, { weight: wildness, arbitrary: wild });
}

function rightValues(schema: Json, document: Json, wildness: number, depth: number): fc.Arbitrary<unknown> {
  const inner = (part: Json): fc.Arbitrary<unknown> => valuesOf(part, document, wildness, depth + 1);
  if (schema.$ref !== undefined) return inner(document.components.schemas[schema.$ref.split("/").at(-1)]);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const members = schema.anyOf ?? schema.oneOf;
  if (members !== undefined) return fc.oneof(...members.map(inner));
  switch (schema.type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "string":
      return fc.oneof(fc.constantFrom(...STRINGS), fc.string({ maxLength: 20, unit: "grapheme" }));
    case "integer":
    case "number":
      return numbers(schema);
    case "array":
      return fc.array(inner(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: Math.min(4, schema.maxItems ?? 4) });
    case "object":
      return depth > MAX_DEPTH ? fc.constant({}) : objects(schema, inner);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

/** Bounds come up often, as that is where mistakes are. */
function numbers(schema: Json): fc.Arbitrary<number> {
  const { type, minimum = -1e6, maximum = Math.max(1e6, schema.minimum ?? 0) } = schema;
  const [low, high] = [Math.max(minimum, Number.MIN_SAFE_INTEGER), Math.min(maximum, Number.MAX_SAFE_INTEGER)];
  const between = type === "integer"
    ? fc.integer({ min: Math.max(low, -(2 ** 31)), max: Math.min(high, 2 ** 31 - 1) })
    : fc.double({ min: low, max: high, noNaN: true });
  return fc.oneof(between, fc.constantFrom(low, high), fc.integer({ min: Math.max(Math.ceil(low), 0), max: Math.min(high, 300) }));
}

function objects(schema: Json, inner: (part: Json) => fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const { properties = {}, required = [], additionalProperties } = schema;
  const named = fc.record(Object.fromEntries(Object.entries<Json>(properties).map(([name, part]) => [name, inner(part)])), {
    requiredKeys: required,
  });
  if (additionalProperties === undefined || additionalProperties === false) return sparse(named, required);
  const keys = fc.oneof(
    fc.integer({ min: -1, max: 300 }).map(String),
    fc.constantFrom("__proto__", "constructor", "a"),
    fc.string({ maxLength: 5 }),
  );
  return fc.tuple(sparse(named, required), fc.dictionary(keys, inner(additionalProperties), { maxKeys: 3 }))
    .map(([known, extra]) => ({ ...extra, ...known }));
}

/** Half of all objects have few of their optional fields: with fifty random ones there is always one that ends the request early. */
function sparse(named: fc.Arbitrary<Record<string, unknown>>, required: readonly string[]): fc.Arbitrary<Record<string, unknown>> {
  const fewer = fc.tuple(named, fc.array(fc.nat(), { maxLength: 4 })).map(([value, picks]) => {
    const optional = Object.keys(value).filter((key) => !required.includes(key));
    const kept = new Set([...required, ...picks.map((pick) => optional[pick % Math.max(1, optional.length)] ?? "")]);
    return Object.fromEntries(Object.entries(value).filter(([key]) => kept.has(key)));
  });
  return fc.oneof(named, { weight: 3, arbitrary: fewer });
}
