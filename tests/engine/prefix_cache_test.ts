import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import type { BackendPage } from "../../src/engine/backend.ts";
import { PrefixCache, type PrefixLease } from "../../src/engine/prefix_cache.ts";

const PAGE = 2;

/** A page that knows whether it was freed. */
class TestPage implements BackendPage {
  readonly hasState = true;
  readonly hasHistory = false;
  isFreed = false;
  constructor(readonly bytes: number) {}
  free(): void {
    if (this.isFreed) throw new Error("A page is freed twice");
    this.isFreed = true;
  }
}

/** What the cache has to do, written down as a list of prefixes that is searched from end to end. */
class NaiveCache {
  entries: { id: string; page: TestPage; lastUse: number; numLeases: number }[] = [];
  numUses = 0;
  numEvictions = 0;
  constructor(readonly maxBytes: number) {}

  get bytes(): number {
    return this.entries.reduce((sum, { page }) => sum + page.bytes, 0);
  }

  find(id: string): NaiveCache["entries"][number] | undefined {
    return this.entries.find((entry) => entry.id === id);
  }

  enter(id: string): void {
    const entry = this.find(id)!;
    entry.numLeases++;
    entry.lastUse = ++this.numUses;
  }

  /** Evicts what nobody stands on and nothing goes on from, oldest first. */
  add(id: string, page: TestPage): boolean {
    const known = this.find(id);
    if (known !== undefined) {
      known.numLeases++;
      known.lastUse = ++this.numUses;
    }
    const isLeaf = (id: string): boolean => !this.entries.some((other) => other.id !== id && other.id.startsWith(id));
    let hasRoom = true;
    while (hasRoom && this.bytes - (known?.page.bytes ?? 0) + page.bytes > this.maxBytes) {
      const [oldest] = this.entries.filter(({ id, numLeases }) => numLeases === 0 && isLeaf(id)).sort((a, b) => a.lastUse - b.lastUse);
      hasRoom = oldest !== undefined;
      this.entries = this.entries.filter((entry) => entry !== oldest);
      this.numEvictions += Number(hasRoom);
    }
    if (known !== undefined) known.numLeases--;
    if (!hasRoom) return false;
    if (known !== undefined) known.page = page;
    else this.entries.push({ id, page, lastUse: 0, numLeases: 0 });
    this.enter(id);
    return true;
  }

  leave(ids: readonly string[]): void {
    for (const id of ids) this.find(id)!.numLeases--;
  }
}

function idOf(salt: string, tokens: Int32Array, numPages: number): string {
  return `${salt}:${Array.from({ length: numPages }, (_, i) => `${tokens.slice(i * PAGE, (i + 1) * PAGE)};`).join("")}`;
}

/** A row follows what is stored, then stores its own pages of `bytes` each; `numPages` is where it stops. */
interface Row {
  readonly salt: string;
  readonly tokens: Int32Array;
  readonly lease: PrefixLease;
  readonly entered: string[];
}

const token = fc.constantFrom(0, 70_000);
const operation = fc.oneof(
  fc.record({
    type: fc.constant("join" as const),
    salt: fc.constantFrom("", "b"),
    tokens: fc.array(token, { minLength: 2 * PAGE, maxLength: 6 * PAGE }),
  }),
  fc.record({ type: fc.constant("add" as const), row: fc.nat(5), bytes: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ type: fc.constant("follow" as const), row: fc.nat(5) }),
  fc.record({ type: fc.constant("leave" as const), row: fc.nat(5) }),
);

Deno.test("the tree finds, keeps and evicts what a list of prefixes would, through any series of rows", () => {
  let numHits = 0;
  let numEvictions = 0;
  let numRefused = 0;
  fc.assert(
    fc.property(fc.array(operation, { minLength: 30, maxLength: 80 }), fc.integer({ min: 5, max: 40 }), (operations, maxBytes) => {
      const cache = new PrefixCache(maxBytes, PAGE);
      const naive = new NaiveCache(maxBytes);
      const rows: Row[] = [];
      const pages: TestPage[] = [];
      for (const step of operations) {
        if (step.type === "join") {
          rows.push({ salt: step.salt, tokens: Int32Array.from(step.tokens), lease: cache.open(step.salt), entered: [] });
          continue;
        }
        const row = rows[step.row % Math.max(1, rows.length)];
        if (row === undefined) continue;
        const { salt, tokens, lease, entered } = row;
        const maxPages = Math.floor(tokens.length / PAGE);
        if (step.type === "leave") {
          naive.leave(entered);
          lease.close();
          rows.splice(rows.indexOf(row), 1);
        } else if (step.type === "follow") {
          const found = lease.ahead(tokens, maxPages);
          const expected: TestPage[] = [];
          for (let n = entered.length + 1; n <= maxPages; n++) {
            const entry = naive.find(idOf(salt, tokens, n));
            if (entry === undefined) break;
            expected.push(entry.page);
          }
          assertEquals(found.map(({ page }) => page), expected);
          numHits += found.length;
          for (const node of found) {
            lease.enter(node);
            entered.push(idOf(salt, tokens, entered.length + 1));
            naive.enter(entered.at(-1)!);
          }
        } else if (entered.length < maxPages) {
          const page = new TestPage(step.bytes);
          const id = idOf(salt, tokens, entered.length + 1);
          const isStored = naive.add(id, page);
          assertEquals(lease.add(tokens, page), isStored);
          if (isStored) {
            pages.push(page);
            entered.push(id);
          } else numRefused++;
        }
        cache.checkIntegrity();
        const { pages: numPages, bytes, evictions } = cache.figures();
        assertEquals([numPages, bytes, evictions], [naive.entries.length, naive.bytes, naive.numEvictions]);
        const kept = new Set(naive.entries.map(({ page }) => page));
        assertEquals(pages.filter(({ isFreed }) => !isFreed).length, kept.size);
        assertEquals(pages.every((page) => page.isFreed !== kept.has(page)), true);
      }
      numEvictions += naive.numEvictions;
      for (const { lease } of rows) lease.close();
      cache.clear();
      cache.checkIntegrity();
      assertEquals([cache.figures().pages, pages.every(({ isFreed }) => isFreed)], [0, true]);
    }),
    { numRuns: 300 },
  );
  assertEquals([numHits > 30, numEvictions > 30, numRefused > 30], [true, true, true]);
});

Deno.test("token ids that differ in their upper half alone are different prefixes", () => {
  const cache = new PrefixCache(100, PAGE);
  const lease = cache.open("");
  lease.add(Int32Array.of(7, 8), new TestPage(1));
  assertEquals(lease.cache.open("").ahead(Int32Array.of(7, 8), 1).length, 1);
  assertEquals(lease.cache.open("").ahead(Int32Array.of(7, 8 + 65_536), 1).length, 0);
});

Deno.test("the integrity check notices a page that was counted wrongly", () => {
  const cache = new PrefixCache(100, PAGE);
  const lease = cache.open("");
  lease.add(Int32Array.of(1, 2), new TestPage(3));
  cache.checkIntegrity();
  lease.path[0]!.numLeases++;
  assertThrows(() => cache.checkIntegrity(), Error, "counts 2 rows");
  lease.path[0]!.numLeases--;
  lease.path[0]!.page = new TestPage(4);
  assertThrows(() => cache.checkIntegrity(), Error, "1 pages of 4 bytes, counted 1 of 3");
});

Deno.test("a page that comes from elsewhere is stored where nobody stands, and never in place of the one before it", () => {
  const cache = new PrefixCache(20, PAGE);
  const tokens = Int32Array.from([1, 2, 3, 4, 5, 6]);
  const lease = cache.open("");
  const pages = Array.from({ length: 3 }, () => new TestPage(10));
  const first = cache.insert(lease.root, cache.keyOf(tokens, 0), pages[0]!);
  const second = cache.insert(first!, cache.keyOf(tokens, 1), pages[1]!);
  cache.checkIntegrity();
  assertEquals(lease.ahead(tokens, 3), [first!, second!]);
  // Full: what could go is only what it is to be stored behind.
  assertEquals(cache.insert(second!, cache.keyOf(tokens, 2), pages[2]!), null);
  cache.checkIntegrity();
  assertEquals(pages.map(({ isFreed }) => isFreed), [false, false, false]);
  // As a leaf that nobody uses it goes for others.
  assertEquals([cache.evict(1), cache.figures().pages, pages[1]!.isFreed, pages[0]!.isFreed], [10, 1, true, false]);
  cache.checkIntegrity();
  assertEquals([cache.evict(50), cache.figures().pages], [10, 0]);
  lease.close();
  cache.checkIntegrity();
});
