/** The native library as it goes into the compiled program: stripped, checked to stand alone, described. */
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { runCommand } from "../../src/hub/command.ts";
import type { BundledFile } from "../../src/native/bundled_library.ts";
import { libraryFileName, NativeLibrary } from "../../src/native/library.ts";
import { SYMBOLS } from "../../src/native/symbols.ts";

export interface LibraryFacts {
  readonly files: readonly BundledFile[];
  /** What the library says about itself. */
  readonly info: Readonly<Record<string, string>>;
  readonly minGlibc: string | null;
}

/** Libraries that every Linux with glibc has. */
const LINUX_SYSTEM = /^(libc|libm|libpthread|libdl|librt|ld-linux[\w-]*)\.so\.\d+$/;
const MAC_SYSTEM = /^(\/usr\/lib\/|\/System\/Library\/)/;

/**
 * Copies the library and what lies beside it into `folder`.
 * @throws {Error} when it needs libraries that a machine may lack, or shows symbols of others.
 */
export async function bundleLibrary(source: string, folder: string): Promise<LibraryFacts> {
  const name = libraryFileName();
  const target = join(folder, name);
  await Deno.copyFile(source, target);
  if (Deno.build.os === "linux") await runCommand(["strip", "--strip-unneeded", target]);
  checkNeeded(await neededLibraries(target));
  if (Deno.build.os === "linux") checkSymbols(await exportedSymbols(target));
  const files = [await describeFile(folder, name)];
  // MLX looks for its GPU kernels beside the library that it is part of.
  const kernels = "mlx.metallib";
  if (await copyIfThere(join(dirname(source), kernels), join(folder, kernels))) files.push(await describeFile(folder, kernels));
  const library = NativeLibrary.open(target);
  try {
    return { files, info: library.buildInfo(), minGlibc: await minGlibc(target) };
  } finally {
    library.close();
  }
}

export async function describeFile(folder: string, name: string): Promise<BundledFile> {
  const content = await Deno.readFile(join(folder, name));
  return { name, bytes: content.length, sha256: createHash("sha256").update(content).digest("hex") };
}

/** @throws {Error} that names the libraries which a machine may lack. */
export function checkNeeded(needed: readonly string[], os: string = Deno.build.os): void {
  const isSystem = os === "darwin" ? MAC_SYSTEM : LINUX_SYSTEM;
  const strange = needed.filter((library) => !isSystem.test(library));
  if (strange.length > 0) throw new Error(`The native library does not stand alone, it needs ${strange.join(", ")}: link these statically`);
}

/** @throws {Error} for a symbol that is missing, and for one that is not Rowlock's and could meet another library's in the same process. */
export function checkSymbols(exported: readonly string[]): void {
  const expected = Object.keys(SYMBOLS);
  const missing = expected.filter((symbol) => !exported.includes(symbol));
  const strange = exported.filter((symbol) => !symbol.startsWith("rl_"));
  if (missing.length > 0) throw new Error(`The native library does not export ${missing.join(", ")}`);
  if (strange.length > 0) throw new Error(`The native library exports ${strange.length} symbols of others, such as ${strange[0]}`);
}

async function neededLibraries(path: string): Promise<string[]> {
  if (Deno.build.os === "darwin") {
    // The first line is the library's own name.
    const lines = await outputLines(["otool", "-L", path]);
    return lines.slice(2).map((line) => line.trim().split(" ")[0] ?? "").filter((name) => !name.startsWith("@rpath/librowlock"));
  }
  const lines = await outputLines(["readelf", "--dynamic", "--wide", path]);
  return lines.flatMap((line) => /\(NEEDED\).*\[(.+)\]/.exec(line)?.[1] ?? []);
}

async function exportedSymbols(path: string): Promise<string[]> {
  return (await outputLines(["nm", "--dynamic", "--defined-only", path])).flatMap((line) => line.split(" ")[2] ?? []);
}

/** Oldest glibc that has everything the library asks for. */
async function minGlibc(path: string): Promise<string | null> {
  if (Deno.build.os !== "linux") return null;
  const lines = await outputLines(["readelf", "--version-info", "--wide", path]);
  const versions = lines.flatMap((line) => [...line.matchAll(/\bGLIBC_(\d+(?:\.\d+)+)/g)].map((match) => match[1] ?? ""));
  return versions.toSorted(byVersion).at(-1) ?? null;
}

function byVersion(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  for (let i = 0; i < 3; i++) {
    const difference = (left?.[i] ?? 0) - (right?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

async function outputLines(command: readonly string[]): Promise<string[]> {
  const lines: string[] = [];
  await runCommand(command, { onLine: (line) => lines.push(line), env: { LC_ALL: "C" } });
  return lines;
}

async function copyIfThere(source: string, target: string): Promise<boolean> {
  try {
    await Deno.copyFile(source, target);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
