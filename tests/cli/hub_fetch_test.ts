import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { fetchFromHub } from "../../src/cli/hub_fetch.ts";
import { findModel } from "../../src/cli/model_source.ts";
import { HubError } from "../../src/hub/hub_error.ts";
import type { HubReference } from "../../src/hub/model_reference.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { withFileLock } from "../../src/hub/file_lock.ts";
import { FakeHub, REPOSITORY, sha256, TINY_FILES, withEnvironment, withFolder } from "../hub/fake_hub.ts";
import { join } from "node:path";

const REFERENCE: HubReference = { type: "hub", repository: REPOSITORY, revision: "main", filePattern: null };
const WAITS = { firstMs: 100, againMs: 250 };

function recorder(): { progress: Progress; notes: string[] } {
  const notes: string[] = [];
  return { notes, progress: { advance(): void {}, note: (text): void => void notes.push(text) } };
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function withHub(body: (hub: FakeHub, folder: string) => Promise<void>): Promise<void> {
  await using hub = new FakeHub();
  await withFolder((folder) =>
    withEnvironment({ HF_HOME: folder, HF_HUB_CACHE: folder, HF_ENDPOINT: hub.endpoint }, () => body(hub, folder))
  );
}

Deno.test("a hub that keeps silent is named again and again, with what is waited for and how long at most", async () => {
  await withHub(async (hub) => {
    // The second attempt is half a second later.
    hub.fault = (_, path, numBefore) => path.startsWith("/api/") && numBefore === 0 ? new Response(null, { status: 503 }) : null;
    const { progress, notes } = recorder();
    await fetchFromHub(REFERENCE, { progress }, WAITS);
    assert(notes.length === 2 || notes.length === 3, `${notes.length} notes`);
    const host = new URL(hub.endpoint).host.replaceAll(".", "\\.");
    const first = `^Nothing has come from the hub at ${host} for 0 s; waiting for ${REPOSITORY}\\. `;
    for (const note of notes) {
      assertMatch(note, new RegExp(`${first}The hub is asked 5 times and given up after at most 158 s of silence$`));
    }
    // It has all been fetched: nothing more is said, or waited for.
    const { length } = notes;
    await delay(300);
    assertEquals(notes.length, length);
  });
});

Deno.test("nothing is said of a hub that answers, nor while another process fetches the file", async () => {
  await withHub(async (_, folder) => {
    const { progress, notes } = recorder();
    const name = sha256(TINY_FILES["model.safetensors"]!);
    const lock = join(folder, ".locks", `models--${REPOSITORY.replace("/", "--")}`, `${name}.lock`);
    const held = Promise.withResolvers<void>();
    const holding = withFileLock(lock, () => {}, async () => {
      held.resolve();
      await delay(1200);
    });
    await held.promise;
    await fetchFromHub(REFERENCE, { progress }, { firstMs: 800, againMs: 100 });
    await holding;
    assertEquals(notes, ["Another process is fetching model.safetensors; waiting for it"]);
  });
});

Deno.test("a model that is to be served is waited for in the same way: a hub that cannot be reached is told before it is given up", async () => {
  await withFolder(async (folder) => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    listener.close();
    await withEnvironment({ HF_HOME: folder, HF_HUB_CACHE: folder, HF_ENDPOINT: `http://127.0.0.1:${port}` }, async () => {
      const { progress, notes } = recorder();
      await assertRejects(() => findModel(REPOSITORY, progress), HubError, "Cannot reach the hub");
      assertEquals(notes.length, 1);
      assertMatch(
        notes[0]!,
        new RegExp(`^Nothing has come from the hub at 127\\.0\\.0\\.1:${port} for 3 s; waiting for ${REPOSITORY}\\. `),
      );
    });
  });
});
