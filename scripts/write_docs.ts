/** Writes what the source knows into the README, between markers: the page of commands and flags, and the sampling fields with their ranges. */
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { flagPage } from "../src/cli/help.ts";
import { SamplingRequest } from "../src/server/schemas/sampling.ts";

const README = fileURLToPath(new URL("../README.md", import.meta.url));

/** Puts `page` between the markers of the section. @throws {Error} when the markers are not there. */
export function replaceSection(readme: string, name: "flags" | "sampling", page: string): string {
  const [beginMark, endMark] = [`<!-- ${name}: written by deno task docs -->`, `<!-- end of ${name} -->`];
  const [begin, end] = [readme.indexOf(beginMark), readme.indexOf(endMark)];
  if (begin < 0 || end < begin) throw new Error(`README.md lacks "${beginMark}" or, after it, "${endMark}"`);
  return `${readme.slice(0, begin + beginMark.length)}\n\n${page}\n\n${readme.slice(end)}`;
}

interface FieldSchema {
  readonly type?: string;
  readonly description?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly enum?: readonly number[];
  readonly anyOf?: readonly FieldSchema[];
}

/** Markdown: every sampling field, what it takes and what it does. */
export function samplingTable(): string {
  const { properties = {} } = z.toJSONSchema(SamplingRequest, { io: "input" }) as { properties?: Record<string, FieldSchema> };
  const rows = Object.entries(properties).map(([name, schema]) => {
    // Every field may be null, which stands for its default.
    const field = schema.anyOf?.find(({ type }) => type !== "null") ?? schema;
    return `| ` + `\`${name}\` | ${kindOf(field)} | ${schema.description ?? field.description ?? ""} |`;
  });
  return ["| field | takes | |", "| --- | --- | --- |", ...rows].join("\n");
}

function kindOf({ type = "", minimum, maximum, enum: values, anyOf }: FieldSchema): string {
  if (anyOf !== undefined) return anyOf.map(kindOf).join(" or ");
  if (values !== undefined) return values.join(" or ");
  if (minimum === undefined) return type;
  return `${type}, ${maximum === undefined ? `at least ${minimum}` : `${minimum} … ${maximum}`}`;
}

if (import.meta.main) {
  const readme = await Deno.readTextFile(README);
  await Deno.writeTextFile(README, replaceSection(replaceSection(readme, "flags", flagPage()), "sampling", samplingTable()));
}
