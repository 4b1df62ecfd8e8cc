import type { Mutant } from "./mutant.ts";

/** Faults of the prefix cache and of its disk. */
export const PREFIX_MUTANTS: readonly Mutant[] = [
  {
    file: "src/engine/prefix_cache.ts",
    find: "if (isPage) this.enter(parent);",
    replace: "if (isPage) parent.numLeases++;",
    test: "tests/engine/prefix_cache_test.ts",
  },
  {
    file: "src/engine/prefix_reuse.ts",
    find: "this.#disk?.leave(row);",
    replace: "",
    test: "tests/engine/prefix_disk_test.ts",
  },
  {
    file: "src/engine/prefix_reuse.ts",
    find: "isReading && budget === LOADS_PER_STEP",
    replace: "isReading",
    test: "tests/engine/prefix_disk_test.ts",
  },
  {
    file: "src/engine/prefix_disk.ts",
    find: "image.numTokens !== this.cache.pageTokens",
    replace: "image.numTokens < 0",
    test: "tests/engine/prefix_disk_test.ts",
  },
  {
    file: "src/engine/prefix_disk.ts",
    find: "this.disk.remove(key);",
    replace: "void key;",
    test: "tests/engine/prefix_disk_test.ts",
  },
  {
    file: "src/engine/prefix_disk.ts",
    find: "this.#isInserting = true;",
    replace: "",
    test: "tests/engine/prefix_disk_test.ts",
  },
  {
    file: "src/engine/prefix_disk.ts",
    find: "nowMs - this.#silentSinceMs > STALL_MS",
    replace: "nowMs - this.#silentSinceMs > MAX_WAIT_MS",
    test: "tests/engine/prefix_disk_test.ts",
  },
  {
    file: "src/engine/engine_server.ts",
    find: "if (isWaiting) this.#idleTimer = setTimeout(() => this.#wake(), STALL_MS);",
    replace: "if (isWaiting) void STALL_MS;",
    test: "tests/engine/engine_server_test.ts",
  },
  {
    file: "src/engine/engine_server.ts",
    find: "if (core.hasWork) this.#wake();",
    replace: "if (core.hasWork) return;",
    test: "tests/engine/engine_server_test.ts",
  },
  {
    file: "src/engine/disk/page_file.ts",
    find: "update(header.subarray(0, CHECKSUM_AT))",
    replace: "update(header.subarray(16, CHECKSUM_AT))",
    test: "tests/engine/disk/page_folder_test.ts",
  },
  {
    file: "src/engine/disk/page_key.ts",
    find: ".update(parentKey)",
    replace: "",
    test: "tests/engine/disk/disk_worker_test.ts",
  },
  {
    file: "src/engine/disk/page_folder.ts",
    find: "new Date(nowMs - i)",
    replace: "new Date(nowMs + i)",
    test: "tests/engine/disk/page_space_test.ts",
  },
  {
    file: "src/engine/disk/page_space.ts",
    find: "Math.min((1 - FREE_SHARE) * this.maxBytes, spaceBytes)",
    replace: "Math.min(this.maxBytes, spaceBytes)",
    test: "tests/engine/disk/page_space_test.ts",
  },
  {
    file: "src/engine/disk/model_identity.ts",
    find: "Object.entries(build).sort(([a], [b]) => a < b ? -1 : 1),",
    replace: "",
    test: "tests/engine/disk/disk_worker_test.ts",
  },
  {
    file: "src/engine/disk/page_folder.ts",
    find: "if (await isFolder(path)) return null;",
    replace: "",
    test: "tests/engine/disk/disk_worker_test.ts",
  },
  {
    file: "src/engine/disk/page_space.ts",
    find: "if (targetBytes < 0) return false;",
    replace: "",
    test: "tests/engine/disk/page_space_test.ts",
  },
  {
    file: "src/engine/disk/disk_server.ts",
    find: "if (this.#state.heldBytes !== known) this.port",
    replace: "if (known < 0) this.port",
    test: "tests/engine/disk/disk_worker_test.ts",
  },
  {
    file: "src/engine/prefix_disk.ts",
    find: "this.#numAsked + this.#numArrived < this.#maxAsked",
    replace: "this.#numAsked < this.#maxAsked",
    test: "tests/engine/prefix_disk_memory_test.ts",
  },
  {
    file: "src/engine/engine_server.ts",
    find: "Math.max(0, memoryBytes - this.#diskBytes)",
    replace: "memoryBytes",
    test: "tests/engine/engine_server_test.ts",
  },
  {
    file: "src/engine/disk/model_identity.ts",
    find: "isBatchInvariant === true,",
    replace: "",
    test: "tests/engine/disk/disk_worker_test.ts",
  },
];
