import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { openApiDocument } from "../../src/server/schemas/openapi.ts";
import { replaceSection, samplingTable } from "../../scripts/write_docs.ts";

Deno.test("a section is written between its markers and nowhere else", () => {
  const [begin, end] = ["<!-- flags: written by deno task docs -->", "<!-- end of flags -->"];
  assertEquals(replaceSection(`a\n${begin}\nold\n${end}\nb`, "flags", "new"), `a\n${begin}\n\nnew\n\n${end}\nb`);
  assertThrows(() => replaceSection(`${end} ${begin}`, "flags", "new"), Error, "README.md lacks");
  assertThrows(() => replaceSection(`${begin}\n${end}`, "sampling", "new"), Error, "README.md lacks");
});

Deno.test("the README's ranges of the sampling fields are those of the schemas", () => {
  const table = samplingTable();
  assertStringIncludes(table, "| `temperature` | number, 0 … 100 |");
  assertStringIncludes(table, "| `top_k` | integer, at least -1 |");
  assertStringIncludes(table, "| `dry_base` | number, 1 … 100 or 0 |");
  const readme = Deno.readTextFileSync(new URL("../../README.md", import.meta.url));
  assert(readme.includes(table), "README.md is behind the schemas: run deno task docs");
});

Deno.test("the README tells every field that /tokenize, /detokenize and /apply-template take and answer", () => {
  const readme = Deno.readTextFileSync(new URL("../../README.md", import.meta.url));
  const { schemas } = openApiDocument("").components as { schemas: Record<string, { properties: Record<string, unknown> }> };
  for (const [route, name] of [["/tokenize", "Tokenize"], ["/detokenize", "Detokenize"], ["/apply-template", "ApplyTemplate"]]) {
    const row = new RegExp(`^\\| \`POST ${route}\` \\|(.*)\\|(.*)\\|$`, "m").exec(readme);
    assert(row !== null, `README.md lacks a row for ${route}`);
    const told = (cell = ""): string[] => [...new Set([...cell.matchAll(/`(\w+)`/g)].map(([, field]) => field!))].toSorted();
    const fieldsOf = (schema: string): string[] => Object.keys(schemas[schema]!.properties).filter((field) => field !== "model").toSorted();
    assertEquals(told(row[1]), fieldsOf(`${name}Request`));
    assertEquals(told(row[2]), fieldsOf(`${name}Response`));
  }
});
