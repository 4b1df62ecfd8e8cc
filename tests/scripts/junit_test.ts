import { assertEquals } from "@std/assert";
import { addCounts, countJunit, describeCounts } from "../../scripts/testing/junit.ts";

Deno.test("Deno's report counts passed, failed and ignored cases, whatever text a failure holds", () => {
  const xml = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="4" failures="1" errors="0" time="0.1">
    <testsuite name="./a_test.ts" tests="4" disabled="1" errors="0" failures="1">
        <testcase name="a &gt; b" classname="./a_test.ts" time="0.001" line="1" col="6">
        </testcase>
        <testcase name="quiet" classname="./a_test.ts" time="0.001"/>
        <testcase name="bad" classname="./a_test.ts" time="0.001">
            <failure message="Uncaught Error: &lt;skipped&gt;">Error</failure>
        </testcase>
        <testcase name="later" classname="./a_test.ts" time="0">
            <skipped/>
        </testcase>
    </testsuite>
</testsuites>`;
  assertEquals(countJunit(xml), { passed: 2, failed: 1, skipped: 1 });
});

Deno.test("ctest's report is read by its status attributes too", () => {
  const xml = `<testsuite name="(empty)" tests="3" failures="1" disabled="1" skipped="0">
	<testcase name="one" classname="one" time="0.1" status="run"><system-out>ok</system-out></testcase>
	<testcase name="two" classname="two" time="0.1" status="fail"><failure message=""/><system-out>x</system-out></testcase>
	<testcase name="three" classname="three" time="0" status="disabled"></testcase>
</testsuite>`;
  assertEquals(countJunit(xml), { passed: 1, failed: 1, skipped: 1 });
});

Deno.test("the closing line sums the runners and tells of skipped tests only when there are some", () => {
  const sum = addCounts({ passed: 2, failed: 1, skipped: 0 }, { passed: 5, failed: 0, skipped: 3 });
  assertEquals(describeCounts(sum), "7 passed, 1 failed, 3 skipped");
  assertEquals(describeCounts({ passed: 4, failed: 0, skipped: 0 }), "4 passed, 0 failed");
});
