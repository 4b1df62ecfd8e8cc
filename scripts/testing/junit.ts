/** Totals of a JUnit report. */

export interface TestCounts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export const NO_TESTS: TestCounts = Object.freeze({ passed: 0, failed: 0, skipped: 0 });

/** Counts test cases themselves: runners differ in which totals they write, and in how steps count in them. */
export function countJunit(xml: string): TestCounts {
  let [passed, failed, skipped] = [0, 0, 0];
  for (const [, attributes = "", body = ""] of xml.matchAll(/<testcase\b((?:[^>"]|"[^"]*")*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    if (/<(failure|error)\b/.test(body) || /\bstatus="fail"/.test(attributes)) failed++;
    else if (/<skipped\b/.test(body) || /\bstatus="(disabled|notrun)"/.test(attributes)) skipped++;
    else passed++;
  }
  return { passed, failed, skipped };
}

export function addCounts(a: TestCounts, b: TestCounts): TestCounts {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped };
}

/** `12 passed, 0 failed`, and what was skipped when anything was. */
export function describeCounts({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}
