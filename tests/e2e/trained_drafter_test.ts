/** The head that was trained for the default model, over HTTP: it is right often, and nobody can tell but by the speed. */
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import type { SpeculationOptions } from "../../src/engine/messages.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import { askAll, contents, ROWS } from "./mixed_rows.ts";
import { type Json, requireTestModel, withRealServer } from "./real_server.ts";

const FOLDER = fileURLToPath(new URL("../fixtures/drafter/smollm2-135m-instruct-eagle3", import.meta.url));
const STORIES = [
  "Write a story about a lighthouse keeper and his dog.",
  "Explain how rain comes about.",
  "Give me five tips for a good night's sleep.",
  "Write a letter to a neighbour who plays music at night.",
];

function speculation(options: SpeculationOptions): SpeculationOptions {
  return { drafter: loadDrafter(FOLDER, loadModel(requireTestModel())), isAdaptive: false, ...options };
}

Deno.test("mixed requests that the head drafts for get the answers that they get without drafts", async () => {
  await withRealServer({ maxBatch: 12, isBatchInvariant: true, speculation: speculation({}) }, async (server) => {
    const plain = await askAll(server, false);
    const drafted = await askAll(server, "eagle3");
    const free = await askAll(server, true);
    for (const [i, answer] of plain.entries()) {
      assertEquals(contents(drafted[i]), contents(answer), `eagle3: ${JSON.stringify(ROWS[i])}`);
      assertEquals(contents(free[i]), contents(answer), `whoever does best: ${JSON.stringify(ROWS[i])}`);
    }
    for (const { timings } of drafted) assert(timings.draft_n_accepted > 0, JSON.stringify(timings));
  });
});

/** Right drafts of a round, on average over the stories. */
async function acceptedPerRound(options: SpeculationOptions, temperature: number): Promise<number> {
  let [numRounds, numAccepted] = [0, 0];
  await withRealServer({ speculation: speculation({ ...options, maxDrafts: 1 }) }, async (server) => {
    const answers = await Promise.all(STORIES.map(async (content, seed): Promise<Json> => {
      const body = { messages: [{ role: "user", content }], temperature, seed, max_tokens: 80, speculative: "eagle3" };
      return await (await server.post("/v1/chat/completions", body)).json();
    }));
    for (const { timings } of answers) {
      [numRounds, numAccepted] = [numRounds + timings.draft_rounds, numAccepted + timings.draft_n_accepted];
    }
  });
  return numAccepted / numRounds;
}

Deno.test("the head's first draft is right far more often than a head could be that is wired wrongly, with a temperature too", async () => {
  const greedy = await acceptedPerRound({}, 0);
  assert(greedy > 0.25, `${(100 * greedy).toFixed(1)} % of first drafts are right at temperature 0`);
  const coupled = await acceptedPerRound({}, 1);
  assert(coupled > 0.18, `${(100 * coupled).toFixed(1)} % of first drafts are right at temperature 1`);
  const guessed = await acceptedPerRound({ isCoupled: false }, 1);
  assert(coupled > guessed, `${(100 * coupled).toFixed(1)} % with coupled drafts, ${(100 * guessed).toFixed(1)} % with best guesses`);
});
