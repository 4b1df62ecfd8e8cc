/** The sources of mlx-c and MLX: from GitHub where it answers, else from a crate that carries them. */
import { join } from "node:path";
import { runCommand, tryCommand } from "../../src/hub/command.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { exists, removeAll } from "./native_paths.ts";
import { aptInstall, canInstall, MissingPrerequisiteError } from "./prerequisites.ts";

export const MLX_C_VERSION = "0.6.0";

const GITHUB_URL = "https://github.com/ml-explore/mlx-c";
const GITHUB_TAG = `v${MLX_C_VERSION}`;
const GITHUB_TIMEOUT_MS = 5_000;
/** Not to hang on a question for a name and password. */
const GIT_ENV = { GIT_TERMINAL_PROMPT: "0" };

const CRATE = { name: "mlxrs-sys", version: "0.2.0", sha256: "ace6d5383b15cade95fbf8b7a10dfa5c4a84b3dcfa57abe012a5020208570f25" };
/** The crate's manifest is of edition 2024, which older versions cannot read. */
const MIN_CARGO = [1, 85] as const;

export interface MlxSources {
  /** Folder of mlx-c's CMakeLists.txt. */
  readonly mlxC: string;
  /** Says where further sources lie that mlx-c's CMake would fetch itself. */
  readonly cmakeFlags: readonly string[];
}

/** Brings the sources below `folder`; what an earlier, interrupted run brought whole is used again. */
export async function fetchMlxSources(folder: string, progress: Progress): Promise<MlxSources> {
  await Deno.mkdir(folder, { recursive: true });
  const clone = join(folder, "mlx-c");
  const vendor = join(folder, "crate");
  if (await exists(clone)) return { mlxC: clone, cmakeFlags: [] };
  if (await exists(vendor)) return crateSources(vendor);
  if (await canReachGithub()) {
    await fetchFromGithub(clone, progress);
    return { mlxC: clone, cmakeFlags: [] };
  }
  await fetchFromCrate(vendor, progress);
  return crateSources(vendor);
}

async function canReachGithub(): Promise<boolean> {
  const probe = ["git", "ls-remote", "--exit-code", GITHUB_URL, `refs/tags/${GITHUB_TAG}`];
  return (await tryCommand(probe, { env: GIT_ENV, timeoutMs: GITHUB_TIMEOUT_MS })).code === 0;
}

async function fetchFromGithub(target: string, progress: Progress): Promise<void> {
  progress.note(`Fetching mlx-c ${GITHUB_TAG} from GitHub`);
  const part = `${target}.part`;
  await removeAll(part);
  await runCommand(["git", "clone", "--quiet", "--depth", "1", "--branch", GITHUB_TAG, GITHUB_URL, part], { env: GIT_ENV });
  await Deno.rename(part, target);
}

async function fetchFromCrate(target: string, progress: Progress): Promise<void> {
  progress.note(`GitHub is out of reach; taking MLX's sources from the crate ${CRATE.name} ${CRATE.version}`);
  await ensureCargo(progress);
  const part = `${target}.part`;
  await removeAll(part);
  await Deno.mkdir(join(part, "src"), { recursive: true });
  const manifest =
    `[package]\nname = "mlx-sources"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n${CRATE.name} = "=${CRATE.version}"\n`;
  await Deno.writeTextFile(join(part, "Cargo.toml"), manifest);
  await Deno.writeTextFile(join(part, "src", "lib.rs"), "");
  await runCommand(["cargo", "vendor", "--quiet", "vendor"], { cwd: part });
  const checksum: { package: string } = JSON.parse(await Deno.readTextFile(join(part, "vendor", CRATE.name, ".cargo-checksum.json")));
  if (checksum.package !== CRATE.sha256) {
    throw new Error(`The crate ${CRATE.name} ${CRATE.version} has SHA-256 ${checksum.package}, expected ${CRATE.sha256}`);
  }
  await Deno.rename(part, target);
}

function crateSources(folder: string): MlxSources {
  const vendor = join(folder, "vendor", CRATE.name, "vendor");
  return {
    mlxC: join(vendor, "mlx-c"),
    cmakeFlags: [`-DFETCHCONTENT_SOURCE_DIR_MLX=${join(vendor, "mlx")}`, `-DFETCHCONTENT_SOURCE_DIR_GGUFLIB=${join(vendor, "gguflib")}`],
  };
}

async function ensureCargo(progress: Progress): Promise<void> {
  const found = await cargoVersion();
  if (isRecent(found)) return;
  const wanted = `cargo ${MIN_CARGO.join(".")} or later`;
  const state = found === null ? "is missing" : `is ${found}`;
  const advice = `GitHub cannot be reached, and for the sources in the crate ${CRATE.name} ${wanted} is needed, but cargo ${state}`;
  if (!await canInstall()) throw new MissingPrerequisiteError(`${advice}. Install one with the system's package manager or rustup.`);
  // Debian keeps a recent cargo for its browsers under another name, while the plain package stays at the release's version.
  await tryCommand(["apt-get", "update", "-qq"]);
  const candidates: string[] = [];
  for (const name of ["cargo", "cargo-web"]) if (isRecent(await aptCandidate(name))) candidates.push(name);
  const [choice] = candidates;
  if (choice === undefined) throw new MissingPrerequisiteError(`${advice}, and apt-get offers none that is recent enough.`);
  await aptInstall([choice], progress);
}

async function cargoVersion(): Promise<string | null> {
  const { code, tail } = await tryCommand(["cargo", "--version"]);
  return code === 0 ? tail[0]?.split(" ")[1] ?? null : null;
}

async function aptCandidate(name: string): Promise<string | null> {
  const { tail } = await tryCommand(["apt-cache", "policy", name], { env: { LC_ALL: "C" } });
  return tail.map((line) => /Candidate:\s*(\S+)/.exec(line)?.[1]).find((version) => version !== undefined) ?? null;
}

/** Whether a version such as `1.85.0` or Debian's `1.96.0+dfsg1-1` is at least `MIN_CARGO`. */
export function isRecent(version: string | null): boolean {
  const match = /^(?:\d+:)?(\d+)\.(\d+)/.exec(version ?? "");
  if (!match) return false;
  const [major, minor] = [Number(match[1]), Number(match[2])];
  return major > MIN_CARGO[0] || (major === MIN_CARGO[0] && minor >= MIN_CARGO[1]);
}
