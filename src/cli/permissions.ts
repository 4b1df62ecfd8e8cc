import type { Need } from "./command.ts";

const ALL: readonly Need[] = ["net", "write", "ffi", "run"];

/**
 * Gives up, for the rest of the process, what is not among `needs`. The compiled program is given all that any of its commands may need;
 * a worker that is started later has no more than what is left.
 */
export function keepOnly(needs: readonly Need[]): void {
  for (const name of ALL) if (!needs.includes(name)) Deno.permissions.revokeSync({ name });
}
