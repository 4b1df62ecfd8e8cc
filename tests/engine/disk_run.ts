/** Runs of engine cores over pages that outlive them. */
import { assert } from "@std/assert";
import type { PageImage } from "../../src/engine/backend.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { PAGE_TOKENS } from "../../src/engine/prefix_cache.ts";
import { FakeBackend } from "./fake_backend.ts";
import { FakeDisk, finishWithDisk } from "./fake_disk.ts";
import { CoreRun, LIMITS } from "./requests.ts";

export const PAGE_BYTES = 8 * PAGE_TOKENS;

/** An engine of its own over pages that outlive it. */
export class DiskRun extends CoreRun {
  nowMs = 0;

  private constructor(readonly backend: FakeBackend, readonly disk: FakeDisk, core: (nowMs: () => number) => EngineCore) {
    super(core(() => this.nowMs));
  }

  static start(
    pages: Map<string, PageImage>,
    { isRecurrent = false, numPages = 1000, maxBatch = LIMITS.maxBatch, kvBytesPerToken = 8 } = {},
  ): DiskRun {
    const backend = new FakeBackend();
    backend.isRecurrent = isRecurrent;
    Object.assign(backend.facts, { kvBytesPerToken });
    const disk = new FakeDisk(pages);
    const limits = { ...LIMITS, maxBatch, prefixCacheBytes: numPages * PAGE_BYTES };
    const run = new DiskRun(backend, disk, (nowMs) => new EngineCore(backend, limits, nowMs, undefined, disk));
    disk.onAnswer = (): void => run.core.prefixes.writeBehind();
    return run;
  }

  /** Steps to the end; the disk answers everything after each step. */
  serve(...requests: GenerateRequest[]): this {
    this.submit(...requests);
    finishWithDisk(this, this.disk, () => void this.nowMs++);
    return this;
  }

  settle(): void {
    for (let i = 0; !this.core.prefixes.isSettled; i++) {
      assert(i < 5000, "Pages are left to be written");
      this.disk.finishWrites();
    }
  }
}
