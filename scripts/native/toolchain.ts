/** The compilers of this machine and the instruction set that is built for: the one place that decides it. */
import { tryCommand } from "../../src/hub/command.ts";

export interface Toolchain {
  /** First line of the C++ compiler's version text; null when there is no compiler. */
  readonly compiler: string | null;
  /** Instruction set of MLX and of Rowlock's own library as `-march` takes it, empty for the compiler's own choice. */
  readonly isa: string;
}

const X86_64_V3 = "x86-64-v3";
/** Its features as the kernel spells them. */
const X86_64_V3_FEATURES = ["avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"];

/** @param isPortable build for other machines too: the same instruction set on every machine, whatever its processor has. */
export async function findToolchain(isPortable = false): Promise<Toolchain> {
  return { compiler: await compilerVersion(), isa: await chooseIsa(isPortable) };
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
async function chooseIsa(isPortable: boolean): Promise<string> {
  if (Deno.build.os !== "linux" || Deno.build.arch !== "x86_64") return "";
  if (isPortable) return X86_64_V3;
  const cpu = await Deno.readTextFile("/proc/cpuinfo");
  const features = new Set(/^flags\s*:\s*(.*)$/m.exec(cpu)?.[1]?.split(" ") ?? []);
  return X86_64_V3_FEATURES.every((feature) => features.has(feature)) ? X86_64_V3 : "";
}
