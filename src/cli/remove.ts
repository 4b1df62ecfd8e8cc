/** The command `rm`: takes models out of the caches. */
import { planRemoval, type Removal } from "../hub/remove_model.ts";
import { onOff, UsageError } from "./flags.ts";
import type { SettingsOf } from "./command.ts";
import { sizeText } from "./size_text.ts";

export const REMOVE_FLAGS = { yes: onOff({ help: "Do not ask" }) } as const;

/** What asks the person; null where nobody can answer. */
export type Ask = ((question: string) => boolean) | null;

const askOnTerminal: Ask = Deno.stdin.isTerminal() ? (question) => confirm(question) : null;

/**
 * Removes each model after a question, which `--yes` leaves out.
 * @throws {UsageError} when nobody can be asked; {HubError} when one is in no cache: then none is removed.
 */
export async function remove(names: readonly string[], { yes }: SettingsOf<typeof REMOVE_FLAGS>, ask: Ask = askOnTerminal): Promise<void> {
  const removals: Removal[] = [];
  for (const name of names) removals.push(await planRemoval(name));
  if (!yes && ask === null) throw new UsageError("rm asks before it removes, and there is no terminal to ask on: give --yes");
  for (const { what, numBytes, run } of removals) {
    if (!yes && !ask?.(`Remove ${what} (${sizeText(numBytes)})?`)) {
      console.log(`kept ${what}`);
      continue;
    }
    await run();
    console.log(`removed ${what} (${sizeText(numBytes)})`);
  }
}
