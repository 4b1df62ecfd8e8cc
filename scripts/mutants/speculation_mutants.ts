import type { Mutant } from "./mutant.ts";

const ROUNDS = "tests/engine/speculation_test.ts";
const REGRET = "tests/engine/draft_regret_test.ts";
const LENGTHS = "tests/engine/draft_lengths_test.ts";
const DRAFTERS = "tests/engine/coupled_drafting_test.ts";

/** Faults of the round loop and of what drafters keep for their rows. */
export const SPECULATION_MUTANTS: readonly Mutant[] = [
  { file: "src/engine/accept.ts", find: "i === drafts.length || token !== drafts[i]", replace: "i === drafts.length", test: ROUNDS },
  { file: "src/engine/accept.ts", find: " && finishReason === null; i++", replace: "; i++", test: ROUNDS },
  { file: "src/engine/advance.ts", find: "sequence.advanceCache(tokens.length - 1);", replace: "", test: ROUNDS },
  {
    file: "src/engine/advance.ts",
    find: "if (rejected.length > 0) backend.keep",
    replace: "if (rejected.length > 99) backend.keep",
    test: ROUNDS,
  },
  { file: "src/engine/advance.ts", find: "sequence.startOver();", replace: "", test: ROUNDS },
  { file: "src/engine/prepare_sampling.ts", find: "sequence.append(draft);", replace: "", test: ROUNDS },
  { file: "src/engine/row_edits.ts", find: "this.#repeated?.slideBack(tokens, length);", replace: "", test: ROUNDS },
  { file: "src/engine/row_states.ts", find: "if (entry !== undefined) this.#entries[to] = entry;", replace: "", test: ROUNDS },
  {
    file: "src/engine/speculation.ts",
    find: "sequence.maxLength - sequence.length - 1",
    replace: "sequence.maxLength - sequence.length",
    test: ROUNDS,
  },
  { file: "src/engine/draft_history.ts", find: "feature += count;", replace: "feature += 1;", test: DRAFTERS },
  { file: "src/engine/draft_history.ts", find: "Math.min(this.numOwn, sequence.numAccepted)", replace: "this.numOwn", test: DRAFTERS },
  {
    file: "src/engine/model_drafter.ts",
    find: "history.length + 1, sequence.cachedLen + 1",
    replace: "history.length, sequence.cachedLen",
    test: DRAFTERS,
  },
  { file: "src/engine/model_drafter.ts", find: "row.sequence.append(sampled.token(output));", replace: "", test: DRAFTERS },
  { file: "src/engine/model_drafter.ts", find: "if (history.numIdle > MAX_IDLE_STEPS) this.#lose(row);", replace: "", test: DRAFTERS },
  { file: "src/engine/speculation.ts", find: "if (chosen !== null) acceptances.enter(chosen.acceptance);", replace: "", test: DRAFTERS },
  { file: "src/engine/choose_offer.ts", find: "Math.max(...promises)", replace: "Math.min(...promises)", test: DRAFTERS },
  {
    file: "src/engine/choose_offer.ts",
    find: "if (offer.acceptance.isDue) chosen = offer;",
    replace: "",
    test: "tests/engine/choose_offer_test.ts",
  },
  { file: "src/engine/round_cost.ts", find: "ms += cost.estimate", replace: "ms += 0 * cost.estimate", test: REGRET },
  { file: "src/engine/speculation.ts", find: "total(hoped) - total(lengths)", replace: "99", test: ROUNDS },
  { file: "src/engine/acceptance.ts", find: "place === 0 ? this.#first", replace: "place < 9 ? this.#first", test: LENGTHS },
];
