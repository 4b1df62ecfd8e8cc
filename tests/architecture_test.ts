/** The design's rules about who may use whom, checked on the source itself. */
import { assertEquals } from "@std/assert";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MAX_LINES = 300;
const PACKAGES_FOR_TESTS = [
  "openai",
  "fast-check",
  "eventsource-parser",
  "@std/assert",
  "ai",
  "@ai-sdk/openai-compatible",
  "@langchain/core",
  "@langchain/openai",
];
const FOREIGN_CODE = /Deno\.(dlopen|UnsafePointer|UnsafePointerView|UnsafeCallback|UnsafeFnPointer)\b/;

/** What each folder of `src/` may import from, besides itself: dependencies point one way. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  native: [],
  hub: [],
  tokenizer: [],
  engine: ["native"],
  models: ["native", "tokenizer"],
  chat: ["tokenizer"],
  server: ["engine", "models", "tokenizer", "chat"],
  cli: ["native", "hub", "tokenizer", "engine", "models", "chat", "server"],
};

/** Path relative to the checkout → text. */
type Sources = ReadonlyMap<string, string>;

function importsOf(text: string): string[] {
  const patterns = [
    /(?:^|\n)\s*(?:import|export)\b[^;"']*?["']([^"'\n]+)["']/g,
    /\bimport\(\s*["']([^"']+)["']/g,
    /new URL\(\s*["'](\.[^"']*\.ts)["']/g,
  ];
  return patterns.flatMap((pattern) => [...text.matchAll(pattern)].map((match) => match[1] ?? ""));
}

function findViolations(sources: Sources): string[] {
  return [...sources].flatMap((
    [path, text],
  ) => [...importViolations(path, text), ...fenceViolations(path, text), ...sizeViolations(path, text)]);
}

function importViolations(path: string, text: string): string[] {
  const [top, layer = ""] = path.split("/");
  if (top !== "src") return [];
  const allowed = MAY_IMPORT[layer];
  if (allowed === undefined) return [`${path} is in a folder that the design does not have: ${layer}`];
  return importsOf(text).flatMap((specifier) => {
    if (!specifier.startsWith(".")) {
      return PACKAGES_FOR_TESTS.some((name) => isPackage(specifier, name)) ? [`${path} imports ${specifier}, which is for tests`] : [];
    }
    const target = normalize(join(dirname(path), specifier));
    const [targetTop, targetLayer = ""] = target.split("/");
    // The version is a fact of the project, not a module.
    const isAllowed = target === "deno.json" || targetTop === "src" && (targetLayer === layer || allowed.includes(targetLayer));
    return isAllowed ? [] : [`${path} imports ${target}: ${layer} may import ${allowed.join(", ") || "nothing else"}`];
  });
}

function isPackage(specifier: string, name: string): boolean {
  return specifier === name || specifier.startsWith(`${name}/`);
}

function fenceViolations(path: string, text: string): string[] {
  if (!path.endsWith(".ts") || path.startsWith("src/native/") || path.startsWith("tests/")) return [];
  const found = FOREIGN_CODE.exec(text);
  return found ? [`${path} uses ${found[0]}: only src/native may`] : [];
}

function sizeViolations(path: string, text: string): string[] {
  const numLines = text.split("\n").length - 1;
  return numLines > MAX_LINES ? [`${path} has ${numLines} lines, at most ${MAX_LINES} are allowed`] : [];
}

function readSources(): Sources {
  const sources = new Map<string, string>([["main.ts", Deno.readTextFileSync(join(ROOT, "main.ts"))]]);
  const visit = (folder: string): void => {
    for (const entry of Deno.readDirSync(join(ROOT, folder))) {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory && entry.name !== "fixtures") visit(path);
      else if (entry.isFile && /\.(ts|c|h)$/.test(path)) sources.set(path, Deno.readTextFileSync(join(ROOT, path)));
    }
  };
  for (const folder of ["src", "scripts", "tests", "ffi"]) visit(folder);
  return sources;
}

Deno.test("dependencies point one way, foreign code stays behind its fence and files stay short", () => {
  const sources = readSources();
  assertEquals(sources.has("src/engine/engine.ts") && sources.has("ffi/include/rowlock.h"), true);
  assertEquals(findViolations(sources), []);
});

Deno.test("the walk finds an import against the direction in every way to write it", () => {
  const violations = (path: string, text: string): string[] => findViolations(new Map([[path, text]]));
  const expected = ["src/engine/a.ts imports src/server/b.ts: engine may import native"];
  for (
    const text of [
      'import { b } from "../server/b.ts";',
      'import type { B } from "../server/b.ts";',
      'import "../server/b.ts";',
      'export * from "../server/b.ts";',
      'import {\n  a,\n  b,\n} from "../server/b.ts";',
      'const b = await import("../server/b.ts");',
      'new Worker(new URL("../server/b.ts", import.meta.url), { type: "module" });',
    ]
  ) assertEquals(violations("src/engine/a.ts", text), expected, text);
  assertEquals(violations("src/engine/a.ts", 'import { c } from "../native/c.ts";\nimport { d } from "./d.ts";'), []);
  assertEquals(violations("src/native/a.ts", 'import { d } from "../../scripts/d.ts";'), [
    "src/native/a.ts imports scripts/d.ts: native may import nothing else",
  ]);
});

Deno.test("the walk finds pointers outside the fence, test packages in the product, long files and unknown folders", () => {
  const violations = (path: string, text: string): string[] => findViolations(new Map([[path, text]]));
  assertEquals(violations("src/engine/a.ts", "Deno.UnsafePointer.of(x);"), [
    "src/engine/a.ts uses Deno.UnsafePointer: only src/native may",
  ]);
  assertEquals(violations("src/native/a.ts", "Deno.dlopen(path, SYMBOLS);"), []);
  assertEquals(violations("src/server/a.ts", 'import OpenAI from "openai";'), ["src/server/a.ts imports openai, which is for tests"]);
  assertEquals(violations("ffi/src/a.c", "int x;\n".repeat(301)), ["ffi/src/a.c has 301 lines, at most 300 are allowed"]);
  assertEquals(violations("src/misc/a.ts", ""), ["src/misc/a.ts is in a folder that the design does not have: misc"]);
});
