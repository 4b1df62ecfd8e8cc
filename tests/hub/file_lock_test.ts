import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { withFileLock } from "../../src/hub/file_lock.ts";

const HOLDER = new URL("../../src/hub/file_lock.ts", import.meta.url).href;

async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("bodies under one lock never overlap, also when one of them fails", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "deep", "x.lock");
    let numInside = 0;
    const body = async (): Promise<void> => {
      assertEquals(++numInside, 1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      numInside--;
    };
    const failing = assertRejects(() => withFileLock(path, () => {}, () => Promise.reject(new Error("broken body"))), Error, "broken body");
    await Promise.all([
      withFileLock(path, () => {}, body),
      failing,
      withFileLock(path, () => {}, body),
      withFileLock(path, () => {}, body),
    ]);
  });
});

Deno.test("a process that is killed gives its lock back, and who waits for it is told so once", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "x.lock");
    const code = `import { withFileLock } from ${JSON.stringify(HOLDER)};
      await withFileLock(${
      JSON.stringify(path)
    }, () => {}, () => { console.log("held"); return new Promise((done) => setTimeout(done, 60_000)); });`;
    const holder = new Deno.Command(Deno.execPath(), { args: ["eval", code], stdout: "piped", stderr: "null" }).spawn();
    const reader = holder.stdout.getReader();
    await reader.read();
    let numNotices = 0;
    const onWait = (): void => {
      numNotices++;
      holder.kill("SIGKILL");
    };
    assertEquals(await withFileLock(path, onWait, () => Promise.resolve("mine")), "mine");
    assertEquals(numNotices, 1);
    await reader.cancel();
    await holder.status;
  });
});
