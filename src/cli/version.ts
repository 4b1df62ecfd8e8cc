import config from "../../deno.json" with { type: "json" };
import type { BuildFacts } from "./bundle.ts";

/** The version that this is, as `deno.json` has it. */
export const VERSION: string = config.version;

/** The text of `--version`. @param facts null when the source runs from a checkout, where nothing was recorded. */
export function versionText(facts: BuildFacts | null): string {
  if (facts === null) return `rowlock ${VERSION}\ncommit    not recorded (this runs from a checkout)`;
  const { commit, target, library, minGlibc } = facts;
  const lines: [string, string | undefined][] = [
    ["commit", commit],
    ["target", minGlibc === null ? target : `${target}, glibc ${minGlibc} or later`],
    ["mlx", library["mlx"]],
    ["mlx-c", library["mlxc"]],
    ["device", library["device"]],
    ["isa", library["isa"]],
    ["blas", library["blas"]],
    ["compiler", library["compiler"]],
    ["deno", Deno.version.deno],
  ];
  const known = lines.filter(([, value]) => value !== undefined && value !== "");
  return [`rowlock ${VERSION}`, ...known.map(([name, value]) => `${name.padEnd(9)} ${value}`)].join("\n");
}
