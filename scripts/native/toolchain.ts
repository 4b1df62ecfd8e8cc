/** The compilers of this machine and the instruction set that is built for: the one place that decides it. */
import { missingFeatures, readCpuinfo } from "../../src/native/cpu_features.ts";
import { tryCommand } from "../../src/hub/command.ts";

export interface Toolchain {
  /** First line of the C++ compiler's version text; null when there is no compiler. */
  readonly compiler: string | null;
  /** Instruction set of MLX and of Rowlock's own library as `-march` takes it, empty for the compiler's own choice. */
  readonly isa: string;
}

const X86_64_V3 = "x86-64-v3";

/** @param isPortable build for other machines too: the same instruction set on every machine, whatever its processor has. */
export async function findToolchain(isPortable = false): Promise<Toolchain> {
  return { compiler: await compilerVersion(), isa: chooseIsa(isPortable) };
}

/** The C++ compiler that CMake takes as well. */
export function cxxCompiler(): string {
  return Deno.env.get("CXX") ?? "c++";
}

async function compilerVersion(): Promise<string | null> {
  let firstLine: string | null = null;
  const { code } = await tryCommand([cxxCompiler(), "--version"], { onLine: (line) => firstLine ??= line });
  return code === 0 ? firstLine : null;
}

/** MLX's element-wise CPU kernels are scalar code that lives from the compiler's vectorizer: baseline x86-64 costs a factor there. */
function chooseIsa(isPortable: boolean): string {
  if (Deno.build.os !== "linux" || Deno.build.arch !== "x86_64") return "";
  return isPortable || missingFeatures(X86_64_V3, readCpuinfo() ?? "").length === 0 ? X86_64_V3 : "";
}
