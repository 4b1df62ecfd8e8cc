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
  const text = JSON.stringify(value, (_key, item) => typeof item === "bigint" ? String(item) : item) ?? String(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
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

function jsonBounds({ min, max, isMinExclusive, also = [] }: Domain): Record<string, number> {
  const low = also.length > 0 ? { minimum: Math.min(min, ...also) } : isMinExclusive ? { exclusiveMinimum: min } : { minimum: min };
  return { ...low, ...(max === Infinity ? {} : { maximum: Math.max(max, ...also) }) };
}

function numberSchema(kind: "a number" | "an integer", domain: Domain, description: string): z.ZodType<number, number> {
  const wanted = `must be ${kind} ${describeDomain(domain)}`;
  return z.number({ error: (issue) => `${wanted}; found ${show(issue.input)}` })
    .superRefine((value, context) => {
      const message = `${wanted}; found ${value}`;
      if (kind === "an integer" && !Number.isInteger(value)) context.addIssue({ code: "custom", message });
      else if (!isInDomain(value, domain)) context.addIssue({ code: "custom", message, params: { isOutOfRange: true } });
    })
    .meta({ type: kind === "an integer" ? "integer" : "number", description, ...jsonBounds(domain) });
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

/** Token ids; whether they are in the vocabulary is checked where the model is known. */
export function tokenIds(description: string): z.ZodType<number[], number[]> {
  return z.array(integer("A token id", { min: 0, max: Infinity }), {
    error: (issue) => `must be a list of token ids; found ${show(issue.input)}`,
  }).meta({ description });
}

/** An optional field: null means absent. */
export function optional<T extends z.ZodType>(schema: T): z.ZodOptional<z.ZodNullable<T>> {
  return schema.nullish();
}
