/** The command `doctor`: what is here, and what is wrong with it. */
import { join } from "node:path";
import { cacheFolder } from "../hub/cache_folder.ts";
import { DEFAULT_MODEL } from "../hub/default_model.ts";
import { NativeLibrary } from "../native/library.ts";
import { type Bundle, readBundle } from "./bundle.ts";
import { environmentWarnings } from "./check_environment.ts";
import { libraryPath } from "./library_path.ts";
import { sizeText } from "./size_text.ts";
import { VERSION } from "./version.ts";

/** One thing that is looked at. Its text says what was found; an error, what is wrong. Both may have several lines. */
export interface Check {
  readonly name: string;
  readonly look: () => Promise<string | Note>;
}

/** Nothing that is wrong with the machine, but something to know before the next start. */
export interface Note {
  readonly note: string;
}

const DEFAULT_PORT = 8080;
/** Weights of the default model as they are computed with, its caches and the program itself. */
const MIN_MEMORY_BYTES = 1.5e9;

/** Prints a line for each check, and gives the exit code: 1 when anything is wrong. */
export async function doctor(checks: readonly Check[] = systemChecks(), print: (line: string) => void = console.log): Promise<number> {
  const width = Math.max(...checks.map(({ name }) => name.length));
  let [numWrong, numNotes] = [0, 0];
  const tell = (kind: string, name: string, text: string): void => {
    const start = `${kind.padEnd(7)}${name.padEnd(width)}  `;
    print(start + text.replaceAll("\n", `\n${" ".repeat(start.length)}`));
  };
  for (const { name, look } of checks) {
    try {
      const found = await look();
      if (typeof found !== "string") numNotes++;
      if (typeof found === "string") tell("ok", name, found);
      else tell("note", name, found.note);
    } catch (error) {
      numWrong++;
      tell("WRONG", name, (error as Error).message);
    }
  }
  const notes = numNotes === 0 ? "" : " Mind what is noted above.";
  print(numWrong === 0 ? `\nNothing is wrong.${notes}` : `\n${numWrong} of ${checks.length} checks found something wrong.${notes}`);
  return numWrong === 0 ? 0 : 1;
}

function systemChecks(bundle: Bundle | null = readBundle()): readonly Check[] {
  return [
    { name: "program", look: () => Promise.resolve(describeProgram(bundle)) },
    { name: "memory", look: () => Promise.resolve(describeMemory()) },
    { name: "environment", look: () => Promise.resolve(checkEnvironment()) },
    { name: "cache", look: checkCache },
    { name: "library", look: () => checkLibrary(bundle) },
    { name: "model", look: () => describeModel(bundle) },
    { name: "port", look: () => describePort() },
  ];
}

function describeProgram(bundle: Bundle | null): string {
  const origin = bundle === null ? "a checkout" : `commit ${bundle.facts.commit}`;
  return `rowlock ${VERSION} from ${origin}, Deno ${Deno.version.deno}, ${Deno.build.target}, ${navigator.hardwareConcurrency} processors`;
}

function describeMemory(): string {
  const { total, available } = Deno.systemMemoryInfo();
  const text = `${sizeText(available)} of ${sizeText(total)} free`;
  if (available < MIN_MEMORY_BYTES) throw new Error(`${text}; the default model needs about ${sizeText(MIN_MEMORY_BYTES)}`);
  return text;
}

function checkEnvironment(): string {
  const warnings = environmentWarnings();
  if (warnings.length > 0) throw new Error(warnings.join("\n"));
  return "no variable has a value that is not understood";
}

async function checkCache(): Promise<string> {
  const folder = cacheFolder();
  await Deno.mkdir(folder, { recursive: true });
  const probe = await Deno.makeTempFile({ dir: folder, prefix: "doctor-" });
  await Deno.remove(probe);
  return `${folder} can be written`;
}

async function checkLibrary(bundle: Bundle | null): Promise<string> {
  const path = await libraryPath(bundle);
  const library = NativeLibrary.open(path);
  try {
    const { mlx, mlxc, device, isa, blas } = library.buildInfo();
    const { activeBytes } = library.memory();
    return `${path}\n${
      details([
        `device ${device}`,
        `MLX ${mlx}`,
        `mlx-c ${mlxc}`,
        isa ? `built for ${isa}` : "",
        `BLAS ${blas}`,
        `${activeBytes} bytes in use`,
      ])
    }`;
  } finally {
    library.close();
  }
}

function details(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(", ");
}

/** A model that is not here yet is no fault: it is brought when it is needed. */
async function describeModel(bundle: Bundle | null): Promise<string> {
  const path = join(cacheFolder(), "models", DEFAULT_MODEL.fileName);
  const bytes = await fileBytes(path);
  if (bytes === DEFAULT_MODEL.memberBytes) return `${path}, ${sizeText(bytes)}`;
  if (bytes !== null) {
    throw new Error(`${path} has ${bytes} bytes, expected ${DEFAULT_MODEL.memberBytes}: it is fetched again at the next start`);
  }
  if (bundle?.facts.model) return `${bundle.facts.model.name} is inside the program; it is unpacked at the first start`;
  return `the default model is not here yet; the first start fetches it (${sizeText(DEFAULT_MODEL.memberBytes)})`;
}

/** A port that is taken, by Rowlock too, is one that another server cannot have. */
export async function describePort(port = DEFAULT_PORT): Promise<string | Note> {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
    return `${port} on 127.0.0.1 is free`;
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
  }
  const text = `${port} on 127.0.0.1 is in use`;
  if (await isRowlockAt(port)) return { note: `${text} by a Rowlock that runs; another one needs another port, --port` };
  throw new Error(`${text} by another program; choose another port with --port`);
}

async function isRowlockAt(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(2_000) });
    const body: unknown = await response.json();
    return typeof body === "object" && body !== null && "status" in body && "reason" in body;
  } catch {
    return false;
  }
}

async function fileBytes(path: string): Promise<number | null> {
  try {
    return (await Deno.stat(path)).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
