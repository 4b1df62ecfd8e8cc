/** An engine worker over the fake backend. `?stepMs=` in its address makes every step that long; the breaking token inside a prompt kills it, outside of any catch. */
import { serveWorkerScope } from "../../src/engine/worker_scope.ts";
import { FakeBackend } from "./fake_backend.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";

const query = new URL(import.meta.url).searchParams;
const stepMs = Number(query.get("stepMs") ?? 0);

serveWorkerScope((options) => {
  if (options.libraryPath === "missing") throw new Error('No library at "missing"');
  return new FakeBackend({
    forward(plan): null {
      if (plan.tokens.subarray(0, plan.numTokens).includes(BREAKING_TOKEN)) {
        queueMicrotask(() => {
          throw new Error("Killed by a test");
        });
      }
      const untilMs = performance.now() + stepMs;
      while (performance.now() < untilMs);
      return null;
    },
  });
});
