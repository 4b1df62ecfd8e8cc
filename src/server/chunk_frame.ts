import type { AnswerIdentity, AnswerNumbers } from "./answer.ts";
import { EVENT_END, EVENT_START } from "./sse.ts";

/**
 * The events of a stream's chunks. What all of them have in common is written once, not for every token of every stream; the fields stand in
 * the order of the schemas.
 */
export class ChunkFrame {
  /** What an event with a choice begins with. */
  readonly head: string;
  /** What it ends with. */
  readonly tail: string;

  /** @param includesUsage every chunk says `usage: null`, and the last one the usage. */
  constructor({ id, created, model, system_fingerprint }: AnswerIdentity, object: string, includesUsage: boolean) {
    this.head = `${EVENT_START}${JSON.stringify({ id, object, created, model, system_fingerprint }).slice(0, -1)},"choices":[`;
    this.tail = `]${includesUsage ? ',"usage":null' : ""}}${EVENT_END}`;
  }

  /** @param fields of the chunk, beside those that all of them have. */
  event(choice: object, fields: object = {}): string {
    const more = JSON.stringify(fields).slice(1, -1);
    const chunk = this.head + JSON.stringify(choice) + this.tail;
    return more === "" ? chunk : `${chunk.slice(0, -1 - EVENT_END.length)},${more}}${EVENT_END}`;
  }

  /** The event of the chunk that has no choices. */
  usageEvent({ usage, timings }: AnswerNumbers): string {
    return `${this.head}],${JSON.stringify({ usage, timings }).slice(1)}${EVENT_END}`;
  }
}
