/** The choice of draft lengths against given costs and chances: never much worse than plain decoding, and near the best fixed length where drafts pay. */
import { assert } from "@std/assert";
import type { Drafter, DraftWish, Offering } from "../../src/engine/drafter.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { RowStates } from "../../src/engine/row_states.ts";
import type { Sequence } from "../../src/engine/sequence.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { DeviceClock } from "./device_clock.ts";
import { FakeBackend } from "./fake_backend.ts";
import { FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { CoreRun, LIMITS, request, solo, tokensOf } from "./requests.ts";

/** Milliseconds of a call that drafts one token for so many rows, and of a forward of so many tokens: SmolLM2-135M's on two cores. */
const draftMs = (numRows: number): number => 0.35 + 0.05 * numRows;
const forwardMs = (numTokens: number): number => 4.6 + 0.55 * (numTokens - 1);

/** Numbers from 0 to 1, the same ones for every test. */
function randomNumbers(): () => number {
  let state = 7;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/** Right with the chances of a draft's place in its round, and as slow as told. */
class ChancyDrafter implements Drafter {
  readonly kind = "eagle3";
  readonly #texts = new RowStates("text", ({ request }) => tokensOf(solo(request)));
  readonly columns = [this.#texts];

  constructor(
    readonly maxDrafts: number,
    readonly chances: readonly number[],
    readonly random: () => number,
    readonly spend: (ms: number) => void,
  ) {}

  /** As a drafter of its kind: no step goes by without it. */
  historyLength(sequence: Sequence): number {
    return sequence.cachedLen;
  }

  offer(sequence: Sequence): Offering | null {
    const numLeft = this.#texts.of(sequence).length - sequence.numGenerated;
    return numLeft <= 0 ? null : { maxDrafts: Math.min(this.maxDrafts, numLeft), grade: 0 };
  }

  propose(wishes: readonly DraftWish[]): void {
    for (let place = 0; place < this.maxDrafts; place++) {
      const numRows = wishes.filter(({ numDrafts }) => numDrafts > place).length;
      if (numRows > 0) this.spend(draftMs(numRows));
    }
    for (const { sequence, numDrafts } of wishes.filter((wish) => wish.numDrafts > 0)) {
      const truth = this.#texts.of(sequence).slice(sequence.numGenerated, sequence.numGenerated + numDrafts);
      const isRight = (place: number): boolean => this.random() < this.chances[Math.min(place, this.chances.length - 1)]!;
      sequence.propose(truth.map((token, place) => isRight(place) ? token : (token + 1) % (FAKE_VOCAB_SIZE - 1)));
    }
  }

  observe(): void {}
}

interface Case {
  readonly numRows: number;
  readonly maxTokens: number;
  readonly chances: readonly number[];
}

/** Milliseconds for several generations of requests. @param numDrafts 0: plain; a number: always so many; null: as the engine chooses. */
function spentMs({ numRows, maxTokens, chances }: Case, numDrafts: number | null): number {
  const random = randomNumbers();
  // Times differ by a few percent, and some steps take twice as long, as on a real machine.
  const noisy = (ms: number): number => ms * (0.96 + 0.08 * random() + (random() < 0.02 ? 1 : 0));
  const clock = new DeviceClock((plan) => noisy(forwardMs(plan.numTokens)));
  const drafter = new ChancyDrafter(numDrafts ?? 3, chances, random, (ms) => clock.nowMs += noisy(ms));
  const speculation = new Speculation(numDrafts === 0 ? [] : [drafter], { isAdaptive: numDrafts === null });
  const backend = new FakeBackend(clock.faults);
  const run = new CoreRun(new EngineCore(backend, { ...LIMITS, maxBatch: numRows }, () => clock.nowMs, speculation));
  run.launchesNext = true;
  for (let turn = 0; turn < 1500 / maxTokens; turn++) {
    run.submit(...Array.from({ length: numRows }, (_, i) => request(`${turn} ${i}`, { maxTokens }))).finish();
  }
  return clock.nowMs;
}

for (const numRows of [1, 4, 8]) {
  for (const maxTokens of [64, 380]) {
    Deno.test(`${numRows} rows of ${maxTokens} tokens: drafts that do not pay cost less than three percent`, () => {
      for (const chances of [[0], [0.1], [0.2, 0.15]]) {
        const one = { numRows, maxTokens, chances };
        const ratio = spentMs(one, 0) / spentMs(one, null);
        assert(ratio > 0.97, `${ratio.toFixed(3)} × plain at chances ${chances}`);
      }
    });
  }
}

Deno.test("drafts that pay bring most of what the best fixed number of them does, at every chance", () => {
  for (const chances of [[0.37, 0.34], [0.5, 0.45], [0.7, 0.65], [0.9]]) {
    const one = { numRows: 1, maxTokens: 380, chances };
    const plain = spentMs(one, 0);
    const best = plain / Math.min(...[1, 2, 3].map((numDrafts) => spentMs(one, numDrafts)));
    const chosen = plain / spentMs(one, null);
    assert(chosen > 0.93 * best, `${chosen.toFixed(3)} × plain at chances ${chances}, a fixed number brings ${best.toFixed(3)}`);
  }
});

Deno.test("rows in company are never drafted for at a loss", () => {
  for (const chances of [[0.37, 0.34], [0.5, 0.45], [0.7, 0.65]]) {
    const one = { numRows: 8, maxTokens: 380, chances };
    const ratio = spentMs(one, 0) / spentMs(one, null);
    assert(ratio > 0.97, `${ratio.toFixed(3)} × plain at chances ${chances}`);
  }
});
