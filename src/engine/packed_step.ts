/** A step's message as it goes between the threads: lists side by side, which both threads handle faster than a list of objects. */
import type { EngineStats, FromEngine, RowUpdate } from "./messages.ts";

type UpdateRest = Omit<RowUpdate, "id" | "tokens">;

export interface PackedStep {
  readonly type: "packed_step";
  /** Of each update; null: the same as in the last step. */
  readonly ids: readonly string[] | null;
  /** Of all updates, one after the other. */
  readonly tokens: readonly number[];
  /** Where each update's tokens end among all of them. */
  readonly ends: readonly number[];
  /** Of those updates that are more than tokens, in order. */
  readonly rests: readonly { readonly index: number; readonly rest: UpdateRest }[];
  readonly stats: EngineStats;
}

export type PackedMessage = Exclude<FromEngine, { readonly type: "step" }> | PackedStep;

/** What most updates are beside tokens. */
const PLAIN: UpdateRest = { logprobs: [], finishReason: null };

/** The engine's end: makes of each message what is posted in its place. */
export class StepPacker {
  #ids: readonly string[] = [];

  pack(message: FromEngine): PackedMessage {
    if (message.type !== "step") return message;
    const { updates, stats } = message;
    const tokens: number[] = [];
    const ends: number[] = [];
    const rests: { index: number; rest: UpdateRest }[] = [];
    for (let index = 0; index < updates.length; index++) {
      const update = updates[index]!;
      for (const token of update.tokens) tokens.push(token);
      ends.push(tokens.length);
      if (isPlain(update)) continue;
      const { id: _id, tokens: _tokens, ...rest } = update;
      rests.push({ index, rest });
    }
    return { type: "packed_step", ids: this.#newIds(updates), tokens, ends, rests, stats };
  }

  #newIds(updates: readonly RowUpdate[]): readonly string[] | null {
    const ids = this.#ids;
    if (ids.length === updates.length && updates.every(({ id }, i) => id === ids[i])) return null;
    return this.#ids = updates.map(({ id }) => id);
  }
}

/** The main thread's end: makes of all that one packer has made, in order, the messages again. */
export class StepUnpacker {
  #ids: readonly string[] = [];

  unpack(message: PackedMessage): FromEngine {
    if (message.type !== "packed_step") return message;
    const { tokens, ends, rests, stats } = message;
    if (message.ids !== null) this.#ids = message.ids;
    const updates: RowUpdate[] = [];
    let [start, numRests] = [0, 0];
    for (const id of this.#ids) {
      const index = updates.length;
      const rest = rests[numRests]?.index === index ? rests[numRests++]!.rest : PLAIN;
      updates.push({ id, tokens: tokens.slice(start, ends[index]), ...rest });
      start = ends[index]!;
    }
    return { type: "step", updates, stats };
  }
}

function isPlain({ logprobs, finishReason, promptLogprobs, round, timings, cachedTokens }: RowUpdate): boolean {
  return finishReason === null && logprobs.length === 0 && round === undefined && promptLogprobs === undefined && timings === undefined &&
    cachedTokens === undefined;
}
