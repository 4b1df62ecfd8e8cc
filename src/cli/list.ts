/** The command `list`: the models on this machine. */
import { type CachedModel, listCachedModels } from "../hub/cached_models.ts";
import { sizeText } from "./size_text.ts";
import { describeServable } from "./servable.ts";

/** Prints a line for each model of both caches: what `--model` takes, its size, and what it is or why it cannot be served. */
export async function list(): Promise<void> {
  const models = await listCachedModels();
  console.log(models.length === 0 ? "No models are kept here; rowlock pull org/name brings one" : modelTable(models, describeServable));
}

/** The lines, aligned. */
export function modelTable(models: readonly CachedModel[], describe: typeof describeServable): string {
  const rows = models.map((model) => [model.name, sizeText(model.numBytes), servedText(model, describe)] as const);
  const widths = [0, 1].map((column) => Math.max(5, ...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]): string => `${row[0]!.padEnd(widths[0]!)}  ${row[1]!.padStart(widths[1]!)}  ${row[2]}`;
  return [line(["MODEL", "SIZE", "SERVED AS"]), ...rows.map(line)].join("\n");
}

function servedText({ path }: CachedModel, describe: typeof describeServable): string {
  if (path === null) return "not: it has neither config.json with model*.safetensors nor a .gguf file";
  const { isServable, text } = describe(path);
  return isServable ? text : `not: ${text}`;
}
