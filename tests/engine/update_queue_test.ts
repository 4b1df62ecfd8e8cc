import { assertEquals, assertRejects } from "@std/assert";
import { EngineError } from "../../src/engine/engine.ts";
import type { RowUpdate } from "../../src/engine/messages.ts";
import { UpdateQueue } from "../../src/engine/update_queue.ts";

const update = (token: number, finishReason: RowUpdate["finishReason"] = null): RowUpdate => ({
  id: "a",
  tokens: [token],
  logprobs: [],
  finishReason,
});

Deno.test("updates come in order, whether they were pushed before or after the reader asked, and end with the finish", async () => {
  const queue = new UpdateQueue(() => {});
  queue.push(update(1));
  const reading = Array.fromAsync(queue);
  await Promise.resolve();
  queue.push(update(2));
  queue.push(update(3, "stop"));
  queue.push(update(4));
  assertEquals((await reading).flatMap(({ tokens }) => tokens), [1, 2, 3]);
});

Deno.test("an error comes after what was queued before it, once", async () => {
  const queue = new UpdateQueue(() => {});
  queue.push(update(1));
  queue.fail(new EngineError("row_broken", "broken"));
  assertEquals((await queue.next()).value?.tokens, [1]);
  assertEquals((await assertRejects(() => queue.next(), EngineError)).code, "row_broken");
  assertEquals((await queue.next()).done, true);
});

Deno.test("an error wakes a reader that waits", async () => {
  const queue = new UpdateQueue(() => {});
  const next = queue.next();
  queue.fail(new EngineError("engine_error", "died"));
  await assertRejects(() => next, EngineError, "died");
});

Deno.test("return takes effect at once, also while next waits, and reports the leaving once", async () => {
  let numLeft = 0;
  const queue = new UpdateQueue(() => numLeft++);
  const next = queue.next();
  await queue.return();
  assertEquals((await next).done, true);
  await queue.return();
  assertEquals(numLeft, 1);
});

Deno.test("return after the finish reports no leaving", async () => {
  let numLeft = 0;
  const queue = new UpdateQueue(() => numLeft++);
  queue.push(update(1, "length"));
  await queue.return();
  assertEquals(numLeft, 0);
  assertEquals((await queue.next()).done, true);
});

/** What a listener hears; it leaves at a token of 9. */
function listenTo(queue: UpdateQueue): (number | string)[] {
  const heard: (number | string)[] = [];
  queue.listen({
    onUpdate: ({ tokens }): void => {
      heard.push(...tokens);
      if (tokens.includes(9)) void queue.return();
    },
    onFailure: ({ code }): void => void heard.push(code),
  });
  return heard;
}

Deno.test("a listener hears what was queued, but not within the call, and then each update at once, in order, up to the finish", async () => {
  const queue = new UpdateQueue(() => {});
  queue.push(update(1));
  const heard = listenTo(queue);
  queue.push(update(2));
  assertEquals(heard, []);
  await Promise.resolve();
  assertEquals(heard, [1, 2]);
  queue.push(update(3));
  assertEquals(heard, [1, 2, 3]);
  queue.push(update(4, "stop"));
  queue.push(update(5));
  queue.fail(new EngineError("engine_error", "late"));
  assertEquals(heard, [1, 2, 3, 4]);
});

Deno.test("a listener hears of a failure once, after what came before it, whether it came before the listener or later", async () => {
  for (const isEarly of [true, false]) {
    const queue = new UpdateQueue(() => {});
    const fail = (): void => {
      queue.push(update(1));
      queue.fail(new EngineError("row_broken", "broken"));
      queue.fail(new EngineError("engine_error", "again"));
    };
    if (isEarly) fail();
    const heard = listenTo(queue);
    await Promise.resolve();
    if (!isEarly) fail();
    assertEquals(heard, [1, "row_broken"]);
  }
});

Deno.test("a listener that leaves hears nothing more, of what was queued either, and the leaving is reported once", async () => {
  for (const isEarly of [true, false]) {
    let numLeft = 0;
    const queue = new UpdateQueue(() => numLeft++);
    const push = (): void => [8, 9, 10].forEach((token) => queue.push(update(token)));
    if (isEarly) push();
    const heard = listenTo(queue);
    await Promise.resolve();
    if (!isEarly) push();
    queue.fail(new EngineError("engine_error", "late"));
    assertEquals([heard, numLeft], [[8, 9], 1]);
  }
});
