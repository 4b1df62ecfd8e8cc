/** A drafter that knows the answers and says them right part of the time. */
import type { Drafter, DraftWish, Offering } from "../../src/engine/drafter.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { RowStates } from "../../src/engine/row_states.ts";
import type { RowColumn } from "../../src/engine/rows.ts";
import type { Sequence } from "../../src/engine/sequence.ts";
import { Speculation, type SpeculationSettings } from "../../src/engine/speculation.ts";
import type { FakeBackend } from "./fake_backend.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";
import { CoreRun, LIMITS, solo, tokensOf } from "./requests.ts";

/** What is drafted in place of the right token, by (row, place in its text); null leaves it right. */
export type Lie = (id: string, position: number) => number | null;

export class OracleDrafter implements Drafter {
  readonly kind = "ngram";
  readonly columns: readonly RowColumn[];
  readonly #texts = new RowStates("text", ({ request }) => tokensOf(solo(request)));

  constructor(readonly maxDrafts: number, readonly lie: Lie) {
    this.columns = [this.#texts];
  }

  offer(sequence: Sequence): Offering | null {
    const numLeft = this.#texts.of(sequence).length - sequence.numGenerated;
    return numLeft <= 0 ? null : { maxDrafts: Math.min(this.maxDrafts, numLeft), grade: 0 };
  }

  propose(wishes: readonly DraftWish[]): void {
    for (const { sequence, numDrafts } of wishes) {
      if (numDrafts === 0) continue;
      const { numGenerated, id } = sequence;
      const truth = this.#texts.of(sequence).slice(numGenerated, numGenerated + numDrafts);
      sequence.propose(truth.map((token, i) => this.lie(id, numGenerated + i) ?? token));
    }
  }

  observe(): void {}
}

/** Wrong in about `share` of all places, the same ones for the same salt; some lies make the model break. */
export function lies(share: number, salt: number): Lie {
  return (id, position) => {
    let state = salt >>> 0;
    for (const char of `${id}/${position}`) state = Math.imul(state ^ char.charCodeAt(0), 0x0100_0193) ^ (state >>> 13);
    const isLie = (state >>> 0) % 1000 < 1000 * share;
    return isLie ? (state % 7 === 0 ? BREAKING_TOKEN : (state >>> 5) % BREAKING_TOKEN) : null;
  };
}

export interface OracleOptions {
  readonly maxDrafts: number;
  readonly lie: Lie;
  readonly limits?: Partial<typeof LIMITS>;
  readonly isAdaptive?: boolean;
  readonly settings?: Partial<SpeculationSettings>;
  readonly nowMs?: () => number;
}

export function oracleRun(
  backend: FakeBackend,
  { maxDrafts, lie, limits = {}, isAdaptive = false, settings = {}, nowMs }: OracleOptions,
): CoreRun {
  const speculation = new Speculation([new OracleDrafter(maxDrafts, lie)], { isAdaptive, ...settings });
  return new CoreRun(new EngineCore(backend, { ...LIMITS, ...limits }, nowMs, speculation));
}

/** The answer of one request as one update: what a client sees of it, however many tokens a step brought. */
export function contentOf(run: CoreRun, { id }: Pick<GenerateRequest, "id">): unknown {
  const answer = run.answers.get(id);
  const updates = answer?.updates ?? [];
  return {
    tokens: updates.flatMap(({ tokens }) => tokens),
    logprobs: updates.flatMap(({ logprobs }) => logprobs),
    promptLogprobs: updates.flatMap(({ promptLogprobs }) => promptLogprobs ?? []),
    finishReason: updates.at(-1)?.finishReason ?? null,
    failure: answer?.failure?.code ?? null,
  };
}
