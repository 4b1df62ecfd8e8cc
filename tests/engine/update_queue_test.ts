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
