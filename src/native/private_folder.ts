/** Folders that no other user of the machine can put anything into. */
import { dirname } from "node:path";

const GROUP_WRITABLE = 0o020;
const OTHERS_WRITABLE = 0o002;
/** In such a folder (like the temporary one) only the owner of an entry may rename or delete it. */
const STICKY = 0o1000;
const PRIVATE_MODE = 0o700;

/** Someone else can change what lies in a folder. */
export class FolderSafetyError extends Error {
  override name = "FolderSafetyError";
}

/**
 * Makes `folder`, readable and writable for this user alone, and sees to it that nobody else can exchange it or one of the folders that it lies in.
 * @returns its path without symbolic links.
 * @throws {FolderSafetyError} with the folder that other users can change.
 */
export async function makePrivateFolder(folder: string): Promise<string> {
  await Deno.mkdir(folder, { recursive: true, mode: PRIVATE_MODE });
  const path = await Deno.realPath(folder);
  if (Deno.build.os === "windows") return path;
  const { uid, mode } = await Deno.lstat(path);
  if (uid !== Deno.uid()) throw new FolderSafetyError(`${path} belongs to user ${uid}, not to this one (${Deno.uid()})`);
  if (((mode ?? 0) & 0o777) !== PRIVATE_MODE) await Deno.chmod(path, PRIVATE_MODE);
  for (let parent = dirname(path), last = path; parent !== last; last = parent, parent = dirname(parent)) await checkParent(parent);
  return path;
}

/** Root may change everything anyway. A group that is the user's own has no other member. */
async function checkParent(path: string): Promise<void> {
  const { uid, gid, mode: found } = await Deno.lstat(path);
  const mode = found ?? 0;
  if (uid !== 0 && uid !== Deno.uid()) {
    throw new FolderSafetyError(`${path} belongs to user ${uid}, not to this one (${Deno.uid()}) or root`);
  }
  const isOpenToGroup = (mode & GROUP_WRITABLE) !== 0 && gid !== 0 && gid !== Deno.gid();
  const isOpen = isOpenToGroup || (mode & OTHERS_WRITABLE) !== 0;
  if (isOpen && (mode & STICKY) === 0) {
    throw new FolderSafetyError(`${path} can be written by other users (mode ${(mode & 0o7777).toString(8)})`);
  }
}
