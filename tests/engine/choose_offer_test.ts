import { assertEquals } from "@std/assert";
import { Acceptance } from "../../src/engine/acceptance.ts";
import { chooseOffer } from "../../src/engine/choose_offer.ts";

interface Offer {
  readonly acceptance: Acceptance;
  readonly value: number;
}

function offer(value: number): Offer {
  return { acceptance: new Acceptance(), value };
}

const valueOf = ({ value }: Offer): number => value;

Deno.test("the offer that promises most is chosen, whoever's it is, the first one among equals", () => {
  const good = offer(3);
  const poor = offer(1);
  assertEquals(chooseOffer([good, poor], valueOf), good);
  assertEquals(chooseOffer([poor, good], valueOf), good);
  const same = offer(3);
  assertEquals(chooseOffer([good, same], valueOf) === good, true);
  assertEquals(chooseOffer([], valueOf), null);
});

Deno.test("an offer that was passed over for eight rounds gets a turn, and the next one later when it fails", () => {
  const good = offer(3);
  const poor = offer(1);
  const chosen = Array.from({ length: 40 }, () => {
    const one = chooseOffer([good, poor], valueOf);
    one?.acceptance.observe(3, one === good ? 3 : 0);
    return one === poor;
  });
  assertEquals(chosen.flatMap((isPoor, i) => isPoor ? [i] : []), [7, 23]);
});
