/** Building blocks of the request schemas: numbers with a domain, and messages that carry the value found and the values allowed. */
import { z } from "zod";

/** Closed bounds, but for the lower one when `isMinExclusive`. */
export interface Domain {
  readonly min: number;
  readonly max: number;
  readonly isMinExclusive?: boolean;
  /** Single values outside the bounds that are accepted too (spellings of "off"). */
  readonly also?: readonly number[];
}

/** A value as it may stand in an error message: short, escaped. */
export function show(value: unknown): string {
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value === undefined) return "nothing";
  const text = JSON.stringify(beginningOf(value)) ?? String(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
}

/** More than a message shows: to write out millions of items for it would hold up every stream. */
const MAX_SHOWN = 64;

function beginningOf(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "string") return value.slice(0, MAX_SHOWN);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, MAX_SHOWN).map(beginningOf);
  const shown: [string, unknown][] = [];
  for (const key in value) {
    if (shown.length === MAX_SHOWN) break;
    shown.push([key.slice(0, MAX_SHOWN), beginningOf((value as Record<string, unknown>)[key])]);
  }
  return Object.fromEntries(shown);
}

/** `from 0 to 2`, `above 0 and up to 100`, `from 0 to 1 or -1`. */
function describeDomain({ min, max, isMinExclusive, also = [] }: Domain): string {
  const bounds = max === Infinity
    ? `${isMinExclusive ? "above" : "of at least"} ${min}`
    : isMinExclusive
    ? `above ${min} and up to ${max}`
    : `from ${min} to ${max}`;
  return [bounds, ...also.map(String)].join(" or ");
}

function isInDomain(value: number, { min, max, isMinExclusive, also = [] }: Domain): boolean {
  return also.includes(value) || (value <= max && (isMinExclusive ? value > min : value >= min));
}

function jsonBounds({ min, max, isMinExclusive }: Domain): Record<string, number> {
  return { ...(isMinExclusive ? { exclusiveMinimum: min } : { minimum: min }), ...(max === Infinity ? {} : { maximum: max }) };
}

type NumberKind = "a number" | "an integer";

interface NumberFault {
  readonly message: string;
  readonly isOutOfRange: boolean;
}

/** What is wrong with a value that should be a number of the domain, or null. */
function numberFault(kind: NumberKind, domain: Domain, value: unknown): NumberFault | null {
  // NaN is no value of JSON; its infinities are numbers that a double cannot hold.
  const isNumber = typeof value === "number" && (Number.isInteger(value) || kind === "a number" || Math.abs(value) === Infinity);
  if (isNumber && Number.isFinite(value) && isInDomain(value, domain)) return null;
  return { message: `must be ${kind} ${describeDomain(domain)}; found ${show(value)}`, isOutOfRange: isNumber };
}

function numberMeta(kind: NumberKind, domain: Domain): Record<string, unknown> {
  const type = kind === "an integer" ? "integer" : "number";
  const bounded = { type, ...jsonBounds(domain) };
  return domain.also === undefined ? bounded : { anyOf: [bounded, { type, enum: [...domain.also] }] };
}

function addNumberFault(context: z.core.$RefinementCtx, fault: NumberFault, path: PropertyKey[] = []): void {
  context.addIssue({ code: "custom", message: fault.message, path, params: { isOutOfRange: fault.isOutOfRange } });
}

function numberSchema(kind: NumberKind, domain: Domain, description: string): z.ZodType<number, number> {
  const wanted = `must be ${kind} ${describeDomain(domain)}`;
  return z.number({ error: (issue) => `${wanted}; found ${show(issue.input)}` })
    .superRefine((value, context) => {
      const fault = numberFault(kind, domain, value);
      if (fault !== null) addNumberFault(context, fault);
    })
    .meta({ ...numberMeta(kind, domain), description });
}

/** A finite number of the domain; outside it the issue is marked `isOutOfRange`. */
export function number(description: string, domain: Domain): z.ZodType<number, number> {
  return numberSchema("a number", domain, description);
}

/** A whole number of the domain; doubles beyond 2^53 are whole numbers too, so that `2^63` can mean "no limit". */
export function integer(description: string, domain: Domain): z.ZodType<number, number> {
  return numberSchema("an integer", domain, description);
}

export function boolean(description: string): z.ZodType<boolean, boolean> {
  return z.boolean({ error: (issue) => `must be true or false; found ${show(issue.input)}` }).meta({ description });
}

export function string(description: string): z.ZodType<string, string> {
  return z.string({ error: (issue) => `must be a string; found ${show(issue.input)}` }).meta({ description });
}

export interface ListOptions {
  readonly maxItems: number;
  readonly minItems?: number;
  /** What the items are called in messages. @default "items" */
  readonly plural?: string;
  /** What a value is told that is no list; `; found …` follows. */
  readonly wanted: string;
  readonly description?: string;
}

/**
 * A list whose items are counted before anything looks at them, and looked at no further than the first that is wrong: zod's own array gathers what
 * is wrong with every one of half a million items, in which time no stream would get a token.
 */
export function list<T>(item: z.ZodType<T, unknown>, options: ListOptions): z.ZodType<T[], T[]> {
  const { maxItems, minItems = 0, plural = "items", wanted, description } = options;
  return z.unknown().transform((value, context): T[] => {
    const add = (issue: z.core.$ZodRawIssue): never => {
      context.issues.push(issue);
      return z.NEVER;
    };
    const refuse = (message: string): never => add({ code: "custom", message, input: value });
    if (!Array.isArray(value)) {
      return add({ code: "invalid_type", expected: "array", message: `${wanted}; found ${show(value)}`, input: value });
    }
    if (value.length > maxItems) return refuse(`must have at most ${maxItems} ${plural}; found ${value.length}`);
    if (value.length < minItems) {
      return refuse(`must have at least ${minItems} ${minItems === 1 ? plural.replace(/s$/, "") : plural}; found ${value.length}`);
    }
    const items: T[] = [];
    for (const [index, one] of value.entries()) {
      const result = item.safeParse(one);
      if (!result.success) return add(placed(result.error.issues[0]!, index, one));
      items.push(result.data);
    }
    return items;
  }).meta({
    ...(description === undefined ? {} : { description }),
    type: "array",
    items: jsonSchema(item),
    minItems,
    maxItems,
  }) as unknown as z.ZodType<T[], T[]>;
}

/** An object of numbers of the domain, looked at no further than the first that is wrong. */
export function numbersByName(
  description: string,
  wanted: string,
  domain: Domain,
): z.ZodType<Record<string, number>, Record<string, number>> {
  return z.unknown().superRefine((value, context) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      context.addIssue({ code: "custom", message: `${wanted}; found ${show(value)}` });
      return;
    }
    for (const name of Object.keys(value)) {
      const fault = numberFault("a number", domain, (value as Record<string, unknown>)[name]);
      if (fault !== null) return addNumberFault(context, fault, [name]);
    }
  }).meta({ description, type: "object", additionalProperties: numberMeta("a number", domain) }) as unknown as z.ZodType<
    Record<string, number>,
    Record<string, number>
  >;
}

function placed(issue: z.core.$ZodIssue, key: PropertyKey, input: unknown): z.core.$ZodRawIssue {
  return { ...issue, path: [key, ...issue.path], input } as z.core.$ZodRawIssue;
}

function jsonSchema(item: z.ZodType): Record<string, unknown> {
  const { $schema: _schema, ...json } = z.toJSONSchema(item, { io: "input", target: "draft-2020-12" });
  return json;
}

/** As many as the largest vocabularies have. */
const MAX_TOKEN_IDS = 1 << 18;

/** Token ids; whether they are in the vocabulary is checked where the model is known. A pass by hand: a schema for each of 200,000 ids takes long. */
export function tokenIds(description: string): z.ZodType<number[], number[]> {
  const domain = { min: 0, max: Infinity };
  return z.unknown().superRefine((value, context) => {
    const refuse = (message: string): void => context.addIssue({ code: "custom", message });
    if (value === undefined) return refuse("is required");
    if (!Array.isArray(value)) return refuse(`must be a list of token ids; found ${show(value)}`);
    if (value.length > MAX_TOKEN_IDS) return refuse(`must have at most ${MAX_TOKEN_IDS} token ids; found ${value.length}`);
    for (const [index, id] of value.entries()) {
      const fault = numberFault("an integer", domain, id);
      if (fault !== null) return addNumberFault(context, fault, [index]);
    }
  }).meta({ description, type: "array", items: numberMeta("an integer", domain), maxItems: MAX_TOKEN_IDS }) as unknown as z.ZodType<
    number[],
    number[]
  >;
}

/** An optional field: null means absent. */
export function optional<T extends z.ZodType>(schema: T): z.ZodOptional<z.ZodNullable<T>> {
  return schema.nullish();
}
