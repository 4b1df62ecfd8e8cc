/** The compilers of this machine and the flags that suit its processor. */
import { tryCommand } from "../../src/hub/command.ts";

export interface Toolchain {
  /** First line of the C++ compiler's version text; null when there is no compiler. */
  readonly compiler: string | null;
  /** Instruction set for C and C++, empty for the compiler's own choice. */
  readonly archFlags: string;
}

/** Features of x86-64-v3 as the kernel spells them. */
const X86_64_V3 = ["avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"];

export async function findToolchain(): Promise<Toolchain> {
  return { compiler: await compilerVersion(), archFlags: await archFlags() };
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
async function archFlags(): Promise<string> {
  if (Deno.build.os !== "linux" || Deno.build.arch !== "x86_64") return "";
  const cpu = await Deno.readTextFile("/proc/cpuinfo");
  const features = new Set(/^flags\s*:\s*(.*)$/m.exec(cpu)?.[1]?.split(" ") ?? []);
  return X86_64_V3.every((feature) => features.has(feature)) ? "-march=x86-64-v3" : "";
}
