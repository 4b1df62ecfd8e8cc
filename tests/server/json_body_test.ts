import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BodyBudget } from "../../src/server/body_budget.ts";
import { ApiError } from "../../src/server/errors.ts";
import { readJsonBody } from "../../src/server/json_body.ts";

const LIMITS = { maxBodyBytes: 1000, bodyTimeoutMs: 50, maxJsonDepth: 4 };

function read(body: BodyInit | null, headers: Record<string, string> = {}): Promise<Record<string, unknown>> {
  const all = { "content-type": "application/json", ...headers };
  return readJsonBody(new Request("http://localhost/", { method: "POST", headers: all, body }), LIMITS, new BodyBudget(1000, 0));
}

/** Sends `text` in parts of so many bytes. */
function readLong(text: string, numBytes = Infinity): Promise<Record<string, unknown>> {
  const bytes = new TextEncoder().encode(text);
  let offset = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      controller.enqueue(bytes.slice(offset, offset + numBytes));
      offset += numBytes;
      if (offset >= bytes.length) controller.close();
    },
  });
  const request = new Request("http://localhost/", { method: "POST", headers: { "content-type": "application/json" }, body });
  return readJsonBody(request, { maxBodyBytes: 2 ** 24, bodyTimeoutMs: 20_000, maxJsonDepth: 4 }, new BodyBudget(2 ** 24, 0));
}

async function status(body: BodyInit | null, headers: Record<string, string> = {}): Promise<number> {
  return (await assertRejects(() => read(body, headers), ApiError)).status;
}

Deno.test("a JSON object is read, in chunks too", async () => {
  assertEquals(await read('{"a":[1,{"b":"é"}]}'), { a: [1, { b: "é" }] });
  const bytes = new TextEncoder().encode('{"a":"é"}');
  const chunks = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  assertEquals(await read(chunks), { a: "é" });
});

Deno.test("bodies that are no JSON objects are 400", async () => {
  for (const body of ["", "null", "[]", '"x"', "5", "{", '{"a":1}x', "{'a':1}", '{"a":NaN}', new Uint8Array([0x7b, 0xff, 0x7d])]) {
    assertEquals(await status(body), 400);
  }
});

Deno.test("types and encodings other than JSON as it is are 415", async () => {
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""]) {
    assertEquals(await status("{}", { "content-type": type }), 415);
  }
  assertEquals(await status("{}", { "content-encoding": "gzip" }), 415);
  assertEquals(await read("{}", { "content-type": "application/json; charset=utf-8", "content-encoding": "identity" }), {});
});

Deno.test("a body beyond the limit is 413, whatever its length said", async () => {
  assertEquals(await status(`{"a":"${"x".repeat(1000)}"}`), 413);
  const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(new Uint8Array(100).fill(32)) });
  assertEquals(await status(endless), 413);
});

Deno.test("a body that takes too long is 408", async () => {
  const slow = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.enqueue(new TextEncoder().encode(" "));
    },
  });
  assertEquals(await status(slow), 408);
});

Deno.test("a body that breaks off is 400", async () => {
  const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("connection reset")) });
  assertEquals(await status(broken), 400);
});

Deno.test("depth is counted outside strings", async () => {
  assertEquals(await read('{"a":[[{"b":"[[[[\\"[[[["}]]}'), { a: [[{ b: '[[[["[[[[' }]] });
  assertEquals(await read('{"a\\\\":[["]"]],"b":[[[]]]}'), { "a\\": [["]"]], b: [[[]]] });
  assertEquals(await read('{"a\\\\":"[[[[["}'), { "a\\": "[[[[[" });
  assertEquals(await status('{"a":[[[[]]]]}'), 400);
  assertEquals(await status("[".repeat(900)), 400);
  const error = await assertRejects(() => read(`{"a":${"[".repeat(500)}`), ApiError);
  assertStringIncludes(error.message, "4 arrays and objects");
});

Deno.test("only the field named seed is read beyond 2^53", async () => {
  assertEquals(await read('{"seed":18446744073709551615,"n":18446744073709551615}'), {
    seed: 18446744073709551615n,
    n: 18446744073709552000,
  });
  assertEquals(await read('{"seed":3,"a":1e3}'), { seed: 3, a: 1000 });
});

Deno.test("an exact seed is the body's own, whatever its texts and its other fields say", async () => {
  const seed = "18446744073709551615";
  const read = (text: string): Promise<unknown> => readLong(text).then((body) => body["seed"]);
  assertEquals(await read(`{"a":"\\"seed\\": 18446744073709551614,","seed" :\n ${seed} }`), 18446744073709551615n);
  assertEquals(await read(`{"x":{"seed":99999999999999999999},"seed":${seed}}`), 18446744073709551615n);
  assertEquals(await read(`{"seed":-9223372036854775807,"seed":${seed}}`), 18446744073709551615n);
  assertEquals(await read(`{"seed":18446744073709551614,"seed":${seed}}`), 18446744073709551615n);
  assertEquals(await read(`{"seed":1e300}`), 1e300);
  assertEquals(await read(`{"seed":9007199254740993,"metadata":{"seed":9007199254740992}}`), 9007199254740993n);
  assertEquals(await read(`{"metadata":{"seed":1},"se\\u0065d":9007199254740993,"x":[9007199254740995]}`), 9007199254740993n);
  assertEquals(await read(`{"seed":9007199254740993,"\\u0073eed":5}`), 5);
  assertEquals(await read(`{"seed":5,"\\u0073eed"\t:9007199254740993}`), 9007199254740993n);
  assertEquals(await read(`{"seed":9007199254740993,"seed":[9007199254740995]}`), [9007199254740996]);
});

Deno.test("a seed is the number that was written, in every spelling, and one that is no integer is no seed", async () => {
  const read = (literal: string): Promise<unknown> => readLong(`{"seed":${literal}}`, 3).then((body) => body["seed"]);
  const cases: Readonly<Record<string, number | bigint | string>> = {
    "9.007199254740993e15": 9007199254740993n,
    "90071992547409930E-1": 9007199254740993n,
    "9007199254740993.000": 9007199254740993n,
    "-9007199254740993e+0": -9007199254740993n,
    "18446744073709551616": 2n ** 64n,
    "0.5e1": 5,
    "-0.0e5": 0,
    "100": 100,
    "0.5": 0.5,
    "9007199254740992.5": "9007199254740992.5",
    "3.0000000000000000001": "3.0000000000000000001",
    "1e-400": "1e-400",
    "1e400": Infinity,
    [`1${"0".repeat(400)}`]: Infinity,
    [`1.${"0".repeat(80)}1`]: `1.${"0".repeat(30)}…`,
  };
  for (const [literal, expected] of Object.entries(cases)) assertEquals(await read(literal), expected, literal);
});

Deno.test("bodies that take long to parse are refused by what they hold, in parts and at once", async () => {
  const keys = Array.from({ length: 70_000 }, (_, i) => `"${i}":1`).join();
  const cases = { [`{"a":{${keys}}}`]: "65536 named values", [`{"a":[${"1e0,".repeat(600_000)}1]}`]: "524288 items" };
  for (const [text, limit] of Object.entries(cases)) {
    for (const numBytes of [text.length, 50_000]) {
      const error = await assertRejects(() => readLong(text, numBytes), ApiError);
      assertEquals([error.status, error.code], [400, "invalid_json"]);
      assertStringIncludes(error.message, limit);
    }
  }
  const named = await assertRejects(() => readLong(`{"a":"b","c":{"d":{${keys}}}}`, 1000), ApiError);
  assertEquals(named.param, "c");
  // What stands in a text is no item.
  const text = `{"a":"${",:".repeat(600_000)}"}`;
  assertEquals((await readLong(text, 1001))["a"], ",:".repeat(600_000));
});

Deno.test("texts are cut anywhere on their way, also inside escapes and characters", async () => {
  const value = { 'a"\\': [{ b: '\\"[{,:' }, "é🎉", "\u0000\ud83c\udf89"] };
  for (const numBytes of [1, 2, 3, 5, 7]) assertEquals(await readLong(JSON.stringify(value), numBytes), value);
});

Deno.test("half a surrogate pair is refused with its place", async () => {
  const error = await assertRejects(() => read('{"a":[{"b":"\\ud83d"}]}'), ApiError);
  assertEquals([error.status, error.param], [400, "a[0].b"]);
  assertEquals(await read('{"a":"\\ud83c\\udf89"}'), { a: "🎉" });
});

Deno.test("keys of prototypes are keys like others", async () => {
  const body = await read('{"__proto__":{"polluted":1},"constructor":2}');
  assertEquals(Object.keys(body), ["__proto__", "constructor"]);
  assertEquals(({} as Record<string, unknown>)["polluted"], undefined);
});
