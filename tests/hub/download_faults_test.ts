/** A hub that breaks off, lies, redirects and refuses. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { fetchModel } from "../../src/hub/fetch_model.ts";
import { HubError } from "../../src/hub/hub_error.ts";
import type { HubReference } from "../../src/hub/model_reference.ts";
import {
  broken,
  FakeHub,
  type Fault,
  fetchOptions,
  ranged,
  redirect,
  REPOSITORY,
  sha256,
  someBytes,
  TINY_FILES,
  withFolder,
} from "./fake_hub.ts";

const REFERENCE: HubReference = { type: "hub", repository: REPOSITORY, revision: "main", filePattern: null };
const WEIGHTS = TINY_FILES["model.safetensors"]!;
const BLOB = join("models--acme--tiny-model", "blobs", sha256(WEIGHTS));

/** Only the weights are at fault. */
function onWeights(fault: (request: Request, numBefore: number) => Response | Promise<Response> | null): Fault {
  return (request, path, numBefore) => path.endsWith("model.safetensors") ? fault(request, numBefore) : null;
}

async function fetchesWhole(hub: FakeHub, prepare: (cache: string) => Promise<void> = () => Promise.resolve()): Promise<void> {
  await withFolder(async (cache) => {
    await prepare(cache);
    const path = await fetchModel(REFERENCE, fetchOptions(hub, cache));
    assertEquals(await Deno.readFile(join(path, "model.safetensors")), WEIGHTS);
  });
}

async function refuses(hub: FakeHub, message: string, token: string | null = null): Promise<HubError> {
  let error: HubError | null = null;
  await withFolder(async (cache) => {
    error = await assertRejects(() => fetchModel(REFERENCE, fetchOptions(hub, cache, token)), HubError, message);
    // Whatever went wrong, nothing under the blob's name can be taken for it.
    await assertRejects(() => Deno.stat(join(cache, BLOB)), Deno.errors.NotFound);
  });
  return error!;
}

function rangesOfWeights(hub: FakeHub): (string | null)[] {
  return hub.seen.filter(({ path }) => path.endsWith("model.safetensors")).map(({ range }) => range);
}

Deno.test("a transfer that breaks off again and again goes on where it was, for as long as something comes", async () => {
  await using hub = new FakeHub();
  hub.fault = onWeights((request, numBefore) => {
    const start = Number(/\d+/.exec(request.headers.get("range") ?? "0")![0]);
    if (numBefore >= 5) return null;
    const headers = { "content-range": `bytes ${start}-${WEIGHTS.length - 1}/${WEIGHTS.length}` };
    return broken(WEIGHTS.subarray(start), 50_000, start === 0 ? {} : { status: 206, headers });
  });
  await fetchesWhole(hub);
  assertEquals(rangesOfWeights(hub), [null, ...[1, 2, 3, 4, 5].map((part) => `bytes=${part * 50_000}-`)]);
});

Deno.test("an interrupted process's beginning is gone on with, and thrown away when it was wrong", async () => {
  await using hub = new FakeHub();
  const leave = (bytes: Uint8Array) => async (cache: string): Promise<void> => {
    await Deno.mkdir(join(cache, BLOB, ".."), { recursive: true });
    await Deno.writeFile(join(cache, `${BLOB}.incomplete`), bytes);
  };
  await fetchesWhole(hub, leave(WEIGHTS.subarray(0, 123_456)));
  assertEquals(rangesOfWeights(hub), ["bytes=123456-"]);
  hub.seen.length = 0;
  await fetchesWhole(hub, leave(someBytes(1000, 9)));
  assertEquals(rangesOfWeights(hub), ["bytes=1000-", null]);
  hub.seen.length = 0;
  await fetchesWhole(hub, leave(someBytes(400_000, 9)));
  assertEquals(rangesOfWeights(hub), [null]);
});

Deno.test("a hub that ignores ranges, or answers another one, is read from the beginning", async () => {
  await using hub = new FakeHub();
  hub.fault = onWeights((_, numBefore) => numBefore === 0 ? broken(WEIGHTS, 1000) : new Response(WEIGHTS));
  await fetchesWhole(hub);
  hub.fault = onWeights((_, numBefore) => {
    if (numBefore === 2) return broken(WEIGHTS, 1000);
    return numBefore === 3 ? ranged(WEIGHTS, "bytes=500-") : null;
  });
  // A wrong beginning shows in the hash; the part that belongs elsewhere is not kept.
  await refuses(hub, "hash");
});

Deno.test("a wrong size and a wrong hash are found, named, and leave nothing behind", async () => {
  await using hub = new FakeHub();
  hub.fault = onWeights(() => new Response(someBytes(WEIGHTS.length, 7)));
  assertStringIncludes((await refuses(hub, "expected")).message, sha256(WEIGHTS));
  hub.fault = onWeights(() => new Response(someBytes(WEIGHTS.length + 1)));
  await refuses(hub, "longer than the 300000 bytes");
  hub.fault = onWeights((request) => ranged(WEIGHTS.subarray(0, 1000), request.headers.get("range")));
  await refuses(hub, "broke off at 1000 of 300000 bytes");
  hub.fault = () => null;
  hub.lies.set("config.json", { blobId: "0".repeat(40) });
  await refuses(hub, `expected ${"0".repeat(40)}`);
});

Deno.test("a hub that falls silent in the middle is given up on and asked again", async () => {
  await using hub = new FakeHub();
  const open: ReadableStreamDefaultController<Uint8Array>[] = [];
  hub.fault = onWeights((_, numBefore) => {
    if (numBefore > 0) return null;
    return new Response(
      new ReadableStream({
        start(controller): void {
          controller.enqueue(WEIGHTS.subarray(0, 5000));
          open.push(controller);
        },
      }),
    );
  });
  await withFolder(async (cache) => {
    const options = fetchOptions(hub, cache);
    const path = await fetchModel(REFERENCE, { ...options, client: { ...options.client, stallTimeoutMs: 100 } });
    assertEquals(await Deno.readFile(join(path, "model.safetensors")), WEIGHTS);
  });
  assertEquals(rangesOfWeights(hub), [null, "bytes=5000-"]);
});

Deno.test("the token goes to the hub and never to the host that it redirects to", async () => {
  await using storage = new FakeHub("localhost");
  await using hub = new FakeHub();
  hub.storage = storage;
  await withFolder(async (cache) => {
    const path = await fetchModel(REFERENCE, fetchOptions(hub, cache, "hf_secret"));
    assertEquals(await Deno.readFile(join(path, "model.safetensors")), WEIGHTS);
  });
  assertEquals(new Set(hub.seen.map(({ authorization }) => authorization)), new Set(["Bearer hf_secret"]));
  assertEquals(storage.seen.map(({ authorization }) => authorization), [null]);
});

Deno.test("a redirect on the hub itself keeps the token, and one that goes round in circles ends", async () => {
  await using hub = new FakeHub();
  hub.fault = onWeights((request) => request.url.includes("?once") ? null : redirect(`${new URL(request.url).pathname}?once`));
  await withFolder(async (cache) => void await fetchModel(REFERENCE, fetchOptions(hub, cache, "hf_secret")));
  assertEquals(hub.seen.filter(({ path }) => path.endsWith(".safetensors")).map(({ authorization }) => authorization), [
    "Bearer hf_secret",
    "Bearer hf_secret",
  ]);
  hub.fault = onWeights((request) => redirect(request.url));
  await refuses(hub, "redirects more than 5 times");
  hub.fault = onWeights(() => redirect("file:///etc/passwd"));
  await refuses(hub, "expected https");
});

Deno.test("refusals say what to do, at once, and the token stays out of the message", async () => {
  await using hub = new FakeHub();
  const cases: [number, string | null, string][] = [
    [401, null, "set HF_TOKEN if it is private or gated"],
    [403, "hf_secret", "check that HF_TOKEN may read it"],
    [404, null, "has no acme/tiny-model@main (404)"],
  ];
  for (const [status, token, message] of cases) {
    hub.seen.length = 0;
    hub.fault = () => new Response(null, { status });
    const error = await refuses(hub, message, token);
    assertEquals([hub.seen.length, error.message.includes("hf_secret")], [1, false]);
  }
});

Deno.test("a busy hub is asked again, and an unreachable one is named", async () => {
  await using hub = new FakeHub();
  hub.fault = (_, __, numBefore) => numBefore === 0 ? new Response(null, { status: 429, headers: { "retry-after": "0" } }) : null;
  await fetchesWhole(hub);
  hub.fault = (_, __, numBefore) => numBefore < 6 ? new Response(null, { status: 502 }) : null;
  hub.seen.length = 0;
  assertStringIncludes((await refuses(hub, "answers 502")).message, hub.endpoint.replace("http://", ""));
  assertEquals(hub.seen.length, 3);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const { message } = await refuses({ endpoint: `http://127.0.0.1:${port}` } as FakeHub, `Cannot reach the hub at 127.0.0.1:${port}`);
  // The reason alone, without the words of everything that passed it on.
  assertMatch(message, /@main: Connection refused[^:]*$/);
});
