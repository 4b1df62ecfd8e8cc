/** One process at a time. */
import { dirname } from "node:path";

const WAIT_NOTICE_MS = 500;

/**
 * Runs `body` while this process alone holds the lock file `path`. The system gives the lock back when the process ends, however it ends,
 * so an interrupted holder leaves nothing to clean up. `onWait` is called once when another process holds the lock.
 */
export async function withFileLock<T>(path: string, onWait: () => void, body: () => Promise<T>): Promise<T> {
  await Deno.mkdir(dirname(path), { recursive: true });
  using file = await Deno.open(path, { create: true, write: true });
  const notice = setTimeout(onWait, WAIT_NOTICE_MS);
  try {
    await file.lock(true);
  } finally {
    clearTimeout(notice);
  }
  try {
    return await body();
  } finally {
    await file.unlock();
  }
}
