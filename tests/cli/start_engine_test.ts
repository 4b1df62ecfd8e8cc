import { assertEquals } from "@std/assert";
import { warnOfDraftFailures } from "../../src/cli/start_engine.ts";
import { FakeEngine } from "../server/fakes.ts";

Deno.test("the first failure of a drafter is told, and those after it are not", () => {
  const engine = new FakeEngine();
  const lines: string[] = [];
  warnOfDraftFailures(engine, (text) => lines.push(text));
  engine.step({});
  assertEquals(lines, []);
  engine.step({ draftFailures: { count: 2, message: "No memory" } });
  engine.step({ draftFailures: { count: 3, message: "No memory again" } });
  assertEquals(lines, ["a drafter failed, its requests go on without drafts: No memory"]);
});
