/** Where things that are fetched or built once are kept, outside any checkout. */
import { resolve } from "node:path";
import { type Environment, readEnvironment } from "./environment.ts";

export type { Environment } from "./environment.ts";

/**
 * `$ROWLOCK_CACHE`, else `$XDG_CACHE_HOME/rowlock`, else `~/.cache/rowlock`.
 * @throws {Error} when no home is known either.
 */
export function cacheFolder(environment: Environment = readEnvironment()): string {
  const { ROWLOCK_CACHE: own, XDG_CACHE_HOME: xdg, HOME: home } = environment;
  if (own) return resolve(own);
  if (xdg) return resolve(xdg, "rowlock");
  if (home) return resolve(home, ".cache", "rowlock");
  throw new Error("No cache folder: none of ROWLOCK_CACHE, XDG_CACHE_HOME and HOME is set");
}
