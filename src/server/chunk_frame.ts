import type { AnswerIdentity, AnswerNumbers } from "./answer.ts";

/**
 * The JSON of a stream's chunks. What all of them have in common is written once, not for every token of every stream; the fields stand in the order of
 * the schemas.
 */
export class ChunkFrame {
  readonly #head: string;
  readonly #tail: string;

  /** @param includesUsage every chunk says `usage: null`, and the last one the usage. */
  constructor({ id, created, model, system_fingerprint }: AnswerIdentity, object: string, includesUsage: boolean) {
    this.#head = `${JSON.stringify({ id, object, created, model, system_fingerprint }).slice(0, -1)},"choices":`;
    this.#tail = includesUsage ? ',"usage":null}' : "}";
  }

  /** @param choices their JSON, an array. */
  chunk(choices: string): string {
    return this.#head + choices + this.#tail;
  }

  /** The chunk that has no choices. */
  usageChunk({ usage, timings }: AnswerNumbers): string {
    return `${this.#head}[],${JSON.stringify({ usage, timings }).slice(1)}`;
  }
}
