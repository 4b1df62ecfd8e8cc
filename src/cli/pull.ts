/** The command `pull`: brings models of the hub into the cache that Python's tools share. */
import { parseModelReference } from "../hub/model_reference.ts";
import { UsageError } from "./flags.ts";
import { fetchFromHub } from "./hub_fetch.ts";
import { describeServable } from "./servable.ts";
import { TerminalProgress } from "./terminal_progress.ts";

/** Fetches each to its newest commit, prints where it is, and says when it could not be served. */
export async function pull(names: readonly string[]): Promise<void> {
  const references = names.map((name) => {
    const reference = parseModelReference(name);
    if (reference.type === "hub") return reference;
    throw new UsageError(`"${name}" is no repository, expected org/name, org/name@revision or org/name:file-pattern`);
  });
  const progress = new TerminalProgress();
  for (const reference of references) {
    const path = await fetchFromHub(reference, { progress, isUpdate: true });
    const servable = describeServable(path);
    if (!servable.isServable) progress.note(`${reference.repository} cannot be served: ${servable.text}`);
    console.log(path);
  }
}
