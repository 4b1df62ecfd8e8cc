import type { PageImage } from "../backend.ts";

/** Gives an image's memory back at once: garbage of this size would lie about for seconds, and nobody has counted it. */
export function discard({ bytes }: PageImage): void {
  bytes.buffer.transfer(0);
}
