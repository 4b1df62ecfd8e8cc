import { assertEquals } from "@std/assert";
import { Acceptance } from "../../src/engine/acceptance.ts";
import { chooseOffer } from "../../src/engine/choose_offer.ts";

/** An offer whose rounds so far had these numbers of right drafts among `maxDrafts`. */
function offer(maxDrafts: number, ...accepted: number[]): { acceptance: Acceptance; maxDrafts: number } {
  const acceptance = new Acceptance();
  for (const count of accepted) acceptance.observe(maxDrafts, count);
  return { acceptance, maxDrafts };
}

Deno.test("the offer that promises most right drafts is chosen, whoever's it is", () => {
  const good = offer(3, 3, 2, 3, 3, 2);
  const poor = offer(7, 0, 1, 0, 0, 1);
  assertEquals(chooseOffer([good, poor]), good);
  assertEquals(chooseOffer([poor, good]), good);
  const long = offer(7, 7, 7, 6, 7);
  assertEquals(chooseOffer([good, long, poor]), long);
  assertEquals(chooseOffer([]), null);
});

Deno.test("an offer of many drafts that was never tried comes before one of few that is right half of the time", () => {
  const fresh = offer(7);
  assertEquals(chooseOffer([offer(3, 1, 1, 1, 1, 1, 1, 1, 1), fresh]), fresh);
});

Deno.test("an offer that was passed over for eight rounds gets a turn", () => {
  const good = offer(3, 3, 3, 3);
  const poor = offer(3, 1, 0, 1, 0);
  const chosen = Array.from({ length: 20 }, () => {
    const one = chooseOffer([good, poor]);
    one?.acceptance.observe(3, one === good ? 3 : 0);
    return one === poor;
  });
  const turns = chosen.flatMap((isPoor, i) => isPoor ? [i] : []);
  assertEquals(turns.length, 1);
  assertEquals(turns[0]! >= 7 && turns[0]! <= 16, true, `${turns}`);
});
