import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type RowColumn, RowTable } from "../../src/engine/rows.ts";
import { SamplingBatch } from "../../src/engine/sampling_batch.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { request, samplings } from "./requests.ts";

/** A column that holds ids, as simply as can be. */
class IdColumn implements RowColumn {
  readonly ids: string[] = [];
  get length(): number {
    return this.ids.length;
  }
  append(sequence: Sequence): void {
    this.ids.push(sequence.id);
  }
  move(from: number, to: number): void {
    this.ids[to] = this.ids[from] ?? "";
  }
  truncate(length: number): void {
    this.ids.length = length;
  }
  fault(row: number, sequence: Sequence): string | null {
    return this.ids[row] === sequence.id ? null : `the id column says "${this.ids[row]}"`;
  }
}

function sequences(numRows: number): Sequence[] {
  return Array.from({ length: numRows }, (_, i) => new Sequence(request(`r${i}`, { sampling: { seed: BigInt(i), topK: i } }), i, 0));
}

Deno.test("rows stay aligned with all columns through any series of append and compact, as in a naive model", () => {
  const operations = fc.array(
    fc.oneof(
      fc.record({ type: fc.constant("append" as const), samplings: fc.array(samplings, { minLength: 1, maxLength: 3 }) }),
      fc.record({ type: fc.constant("compact" as const), leaving: fc.array(fc.integer({ min: 0, max: 7 }), { maxLength: 8 }) }),
    ),
    { maxLength: 30 },
  );
  fc.assert(fc.property(operations, (list) => {
    const column = new IdColumn();
    const table = new RowTable(8, [column, new SamplingBatch(FAKE_VOCAB_SIZE)]);
    // The naive model: the cache as a list of ids, moved exactly as the table says.
    let cache: string[] = [];
    let numMade = 0;
    for (const operation of list) {
      if (operation.type === "append") {
        const room = operation.samplings.slice(0, 8 - table.numRows);
        const rows = room.map((sampling) => new Sequence(request(`r${numMade++}`, { sampling }), numMade, 0));
        table.append(rows);
        cache.push(...rows.map(({ id }) => id));
      } else {
        const kept = new Set(cache.filter((_, row) => !operation.leaving.includes(row)));
        for (const { from, to } of table.compact((sequence) => kept.has(sequence.id))) cache[to] = cache[from] ?? "";
        cache = cache.slice(0, kept.size);
        assertEquals(new Set(cache), kept);
      }
      table.checkIntegrity();
      assertEquals(table.sequences.map(({ id }) => id), cache);
      assertEquals(column.ids, cache);
    }
  }));
});

Deno.test("compact moves the last row into the hole and leaves everybody else where they are", () => {
  const table = new RowTable(8, []);
  const rows = sequences(5);
  table.append(rows);
  const moves = table.compact((sequence) => sequence.id !== "r1");
  assertEquals(moves.map(({ from, to }) => [from, to]), [[4, 1]]);
  assertEquals(table.sequences.map(({ id }) => id), ["r0", "r4", "r2", "r3"]);
  assertEquals(rows.map(({ slot }) => slot), [0, -1, 2, 3, 1]);
});

Deno.test("compact moves nothing when only the last rows leave", () => {
  const table = new RowTable(8, []);
  table.append(sequences(4));
  assertEquals(table.compact((sequence) => sequence.slot < 2), []);
  assertEquals(table.numRows, 2);
});

Deno.test("a move carries the number of tokens that the cache holds for the row", () => {
  const table = new RowTable(8, []);
  const rows = sequences(2);
  table.append(rows);
  rows[1]?.advanceCache(2);
  assertEquals(table.compact((sequence) => sequence.id === "r1").map(({ length }) => length), [2]);
});

Deno.test("the table refuses more rows than may share a step", () => {
  const error = assertThrows(() => new RowTable(2, []).append(sequences(3)), RangeError);
  assert(error.message.includes("3 rows") && error.message.includes("at most 2"), error.message);
});

Deno.test("the integrity check names a column that was not compacted", () => {
  class Forgetful extends IdColumn {
    override move(): void {}
  }
  const table = new RowTable(8, [new Forgetful()]);
  table.append(sequences(3));
  table.checkIntegrity();
  table.compact((sequence) => sequence.id !== "r0");
  assertThrows(() => table.checkIntegrity(), Error, 'Row 0 ("r2"): the id column says "r0"');
});

Deno.test("the integrity check finds a configuration that is in a neighbour's row", () => {
  const sampling = new SamplingBatch(FAKE_VOCAB_SIZE);
  const table = new RowTable(8, [sampling]);
  table.append(sequences(3));
  table.checkIntegrity();
  sampling.move(2, 1);
  assertThrows(() => table.checkIntegrity(), Error, 'Row 1 ("r1"): word 0 of the packed sampling is 2, its own is 1');
});
