/** What the native build needs from the system: found, else installed where that is allowed, else named with the line that installs it. */
import { runCommand, tryCommand } from "../../src/hub/command.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { cxxCompiler } from "./toolchain.ts";

/** A prerequisite is missing and this process may not install it. */
export class MissingPrerequisiteError extends Error {
  override name = "MissingPrerequisiteError";
}

interface Prerequisite {
  /** What it is called in a message. */
  readonly name: string;
  readonly isPresent: () => Promise<boolean>;
  /** Packages that bring it; null where the system has it or does not need it. */
  readonly apt: string | null;
  readonly dnf: string | null;
  readonly brew: string | null;
}

type PackageManager = "apt" | "dnf" | "brew";

const INSTALL_LINES: Readonly<Record<PackageManager, string>> = {
  apt: "sudo apt-get update && sudo apt-get install -y",
  dnf: "sudo dnf install -y",
  brew: "brew install",
};

const PROGRAMS: readonly Prerequisite[] = [
  { name: "a C++ compiler", isPresent: hasCompiler, apt: "g++", dnf: "gcc-c++", brew: null },
  { name: "CMake", isPresent: () => canRun("cmake", "--version"), apt: "cmake", dnf: "cmake", brew: "cmake" },
  { name: "a build program (ninja or make)", isPresent: hasBuildProgram, apt: "ninja-build", dnf: "ninja-build", brew: "ninja" },
];

/**
 * Sees to it that compiler, CMake, a build program and, on Linux, the libraries that MLX's CPU backend uses are there.
 * @throws {MissingPrerequisiteError}
 */
export async function ensurePrerequisites(progress: Progress): Promise<void> {
  await ensure(PROGRAMS, progress);
  // The package of the Fortran runtime carries the compiler's version, so the compiler comes first.
  if (Deno.build.os === "linux") await ensure(await linuxLibraries(), progress);
}

/** Whether packages can be installed here without asking: Debian's apt-get, as root. */
export async function canInstall(): Promise<boolean> {
  return Deno.build.os === "linux" && Deno.uid() === 0 && await canRun("apt-get", "--version");
}

/** Installs Debian packages, quietly. */
export async function aptInstall(packages: readonly string[], progress: Progress): Promise<void> {
  progress.note(`Installing ${packages.join(", ")} with apt-get`);
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  // An old package list names versions that are gone, so it is renewed; a mirror that fails shows in the next line, if it matters.
  await tryCommand(["apt-get", "update", "-qq"], { env });
  await runCommand(["apt-get", "install", "-y", "-qq", "--no-install-recommends", ...packages], { env });
}

export async function canRun(...command: string[]): Promise<boolean> {
  return (await tryCommand(command)).code === 0;
}

async function ensure(prerequisites: readonly Prerequisite[], progress: Progress): Promise<void> {
  const missing = await findMissing(prerequisites);
  if (missing.length === 0) return;
  if (!await canInstall()) throw new MissingPrerequisiteError(await describeMissing(missing));
  await aptInstall(packagesFor(missing, "apt"), progress);
  const still = await findMissing(prerequisites);
  if (still.length > 0) throw new MissingPrerequisiteError(`Installed, but not found: ${still.map((entry) => entry.name).join(", ")}`);
}

async function findMissing(prerequisites: readonly Prerequisite[]): Promise<Prerequisite[]> {
  const present = await Promise.all(prerequisites.map((entry) => entry.isPresent()));
  return prerequisites.filter((_, index) => !present[index]);
}

async function describeMissing(missing: readonly Prerequisite[]): Promise<string> {
  const names = `The native build needs ${missing.map((entry) => entry.name).join(", ")}.`;
  const manager = await findPackageManager();
  if (manager === null) return `${names} Install them with the system's package manager.`;
  const packages = packagesFor(missing, manager);
  const line = packages.length > 0 ? `${INSTALL_LINES[manager]} ${packages.join(" ")}` : "xcode-select --install";
  return `${names} Install with: ${line}`;
}

function packagesFor(missing: readonly Prerequisite[], manager: PackageManager): string[] {
  return [...new Set(missing.map((entry) => entry[manager]).filter((name) => name !== null))];
}

async function findPackageManager(): Promise<PackageManager | null> {
  if (Deno.build.os === "darwin") return "brew";
  if (await canRun("apt-get", "--version")) return "apt";
  return await canRun("dnf", "--version") ? "dnf" : null;
}

async function hasCompiler(): Promise<boolean> {
  return await canRun(cxxCompiler(), "--version") && await canRun(Deno.env.get("CC") ?? "cc", "--version");
}

async function hasBuildProgram(): Promise<boolean> {
  return await canRun("ninja", "--version") || await canRun("make", "--version");
}

async function linuxLibraries(): Promise<Prerequisite[]> {
  const header = (name: string, apt: string, dnf: string): Prerequisite => ({
    name: `the header ${name}`,
    isPresent: () => hasHeader(name),
    apt,
    dnf,
    brew: null,
  });
  // OpenBLAS is linked statically, so that its runtime has to be there as an archive too.
  const fortranRuntime: Prerequisite = {
    name: "the archive libgfortran.a",
    isPresent: () => hasLibrary("libgfortran.a"),
    apt: `libgfortran-${await gccMajor()}-dev`,
    dnf: "libgfortran-static",
    brew: null,
  };
  return [
    { name: "OpenBLAS", isPresent: () => hasLibrary("libopenblas.so"), apt: "libopenblas-dev", dnf: "openblas-devel", brew: null },
    header("lapacke.h", "liblapacke-dev", "lapack-devel"),
    header("fmt/format.h", "libfmt-dev", "fmt-devel"),
    header("nlohmann/json.hpp", "nlohmann-json3-dev", "json-devel"),
    fortranRuntime,
  ];
}

async function hasHeader(name: string): Promise<boolean> {
  return await canRun("sh", "-c", `printf '#include <${name}>\\n' | "$0" -x c++ -std=c++20 -E - >/dev/null`, cxxCompiler());
}

/** The release of GCC whose runtime the compiler links with, also when it is Clang. */
async function gccMajor(): Promise<string> {
  const [path = ""] = await runCommand([cxxCompiler(), "-print-file-name=libgcc.a"]);
  return /\/gcc\/[^/]+\/(\d+)/.exec(path)?.[1] ?? "12";
}

/** Whether the linker finds a library of this file name: the compiler prints a path for what it knows and the bare name for what it does not. */
async function hasLibrary(fileName: string): Promise<boolean> {
  const { code, tail } = await tryCommand([cxxCompiler(), `-print-file-name=${fileName}`]);
  return code === 0 && tail[0] !== fileName;
}
