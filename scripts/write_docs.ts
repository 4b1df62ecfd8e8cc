/** Writes what the source knows into the README: the page of commands and flags, between its two markers. */
import { fileURLToPath } from "node:url";
import { flagPage } from "../src/cli/help.ts";

const README = fileURLToPath(new URL("../README.md", import.meta.url));
const BEGIN = "<!-- flags: written by deno task docs -->";
const END = "<!-- end of flags -->";

/** @throws {Error} when the markers are not there. */
export function replaceFlagPage(readme: string, page: string): string {
  const [begin, end] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`README.md lacks "${BEGIN}" or, after it, "${END}"`);
  return `${readme.slice(0, begin + BEGIN.length)}\n\n${page}\n\n${readme.slice(end)}`;
}

if (import.meta.main) await Deno.writeTextFile(README, replaceFlagPage(await Deno.readTextFile(README), flagPage()));
