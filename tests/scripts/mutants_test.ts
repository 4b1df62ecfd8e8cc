import { assert, assertEquals, assertThrows } from "@std/assert";
import { ENGINE_MUTANTS } from "../../scripts/mutants/engine_mutants.ts";
import { applyMutant, describeMutant, type Mutant } from "../../scripts/mutants/mutant.ts";
import { SAMPLER_MUTANTS } from "../../scripts/mutants/sampler_mutants.ts";

const MUTANTS = [...ENGINE_MUTANTS, ...SAMPLER_MUTANTS];

function read(path: string): string {
  return Deno.readTextFileSync(new URL(`../../${path}`, import.meta.url));
}

Deno.test("every fault of the table applies to exactly one place of its file, within a line, and changes it", () => {
  for (const mutant of MUTANTS) {
    const text = read(mutant.file);
    assert(applyMutant(text, mutant) !== text, describeMutant(mutant));
    assert(!mutant.find.includes("\n") && !mutant.replace.includes("\n"), describeMutant(mutant));
  }
});

Deno.test("the table has at least 25 faults, all different, of sampler, row table and scheduler", () => {
  assert(MUTANTS.length >= 25, `${MUTANTS.length} faults`);
  assertEquals(new Set(MUTANTS.map(describeMutant)).size, MUTANTS.length);
  for (const part of ["ffi/src/sampling/", "src/engine/rows.ts", "src/engine/scheduler.ts"]) {
    assert(MUTANTS.some(({ file }) => file.startsWith(part)), `no fault in ${part}`);
  }
});

Deno.test("the tests that catch faults exist", () => {
  for (const { test } of MUTANTS) assert(read(test).length > 0, test);
});

Deno.test("a fault whose text is missing or ambiguous is an error that says so", () => {
  const mutant: Mutant = { file: "a.ts", find: "x", replace: "y", test: "a_test.ts" };
  assertEquals(applyMutant("a x b", mutant), "a y b");
  assertThrows(() => applyMutant("a b", mutant), Error, 'a.ts has "x" 0 times, expected once');
  assertThrows(() => applyMutant("x x", mutant), Error, "2 times");
});
