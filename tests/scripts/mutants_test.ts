import { assert, assertEquals, assertThrows } from "@std/assert";
import { ALL_MUTANTS } from "../../scripts/mutants/all_mutants.ts";
import { applyMutant, describeMutant, type Mutant } from "../../scripts/mutants/mutant.ts";

function read(path: string): string {
  return Deno.readTextFileSync(new URL(`../../${path}`, import.meta.url));
}

Deno.test("every fault of the table applies to exactly one place of its file, within a line, and changes it", () => {
  for (const mutant of ALL_MUTANTS) {
    const text = read(mutant.file);
    assert(applyMutant(text, mutant) !== text, describeMutant(mutant));
    assert(!mutant.find.includes("\n") && !mutant.replace.includes("\n"), describeMutant(mutant));
  }
});

Deno.test("the table has at least 100 faults, all different, of sampler, kernels, row table, scheduler, prefixes and speculation", () => {
  assert(ALL_MUTANTS.length >= 100, `${ALL_MUTANTS.length} faults`);
  assertEquals(new Set(ALL_MUTANTS.map(describeMutant)).size, ALL_MUTANTS.length);
  const parts = [
    "ffi/src/sampling/",
    "ffi/src/cpu/",
    "src/engine/rows.ts",
    "src/engine/scheduler.ts",
    "src/engine/prefix",
    "src/engine/speculation.ts",
  ];
  for (const part of parts) {
    assert(ALL_MUTANTS.some(({ file }) => file.startsWith(part)), `no fault in ${part}`);
  }
});

Deno.test("the tests that catch faults exist", () => {
  for (const { test } of ALL_MUTANTS) assert(read(test).length > 0, test);
});

Deno.test("a fault whose text is missing or ambiguous is an error that says so", () => {
  const mutant: Mutant = { file: "a.ts", find: "x", replace: "y", test: "a_test.ts" };
  assertEquals(applyMutant("a x b", mutant), "a y b");
  assertThrows(() => applyMutant("a b", mutant), Error, 'a.ts has "x" 0 times, expected once');
  assertThrows(() => applyMutant("x x", mutant), Error, "2 times");
});
