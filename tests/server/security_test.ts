import { assertEquals } from "@std/assert";
import { isLoopback } from "../../src/server/security.ts";
import { FakeEngine, HELLO, testApp } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

Deno.test("with keys every route but health asks for one", async () => {
  const { get, post } = testApp(new FakeEngine(), { apiKeys: ["sk-one", "sk-two"] });
  const status = async (path: string, authorization?: string): Promise<number> => {
    const response = await get(path, authorization === undefined ? {} : { headers: { authorization } });
    await response.body?.cancel();
    return response.status;
  };
  for (const path of ["/v1/models", "/metrics", "/openapi.json", "/nothing", "/v1/models/x"]) assertEquals(await status(path), 401);
  assertEquals(await status("/health"), 200);
  for (const good of ["Bearer sk-one", "bearer sk-two", "Bearer  sk-one "]) assertEquals(await status("/v1/models", good), 200);
  for (
    const bad of [
      "Bearer",
      "Bearer ",
      "sk-one",
      "Basic sk-one",
      "Bearer sk-one sk-two",
      "Bearer sk-onee",
      "Bearer sk-on",
      "Bearer sk-one\tx",
    ]
  ) {
    assertEquals(await status("/v1/models", bad), 401, bad);
  }
  const refused = await post(CHAT, HELLO);
  assertEquals([refused.status, refused.headers.get("www-authenticate")], [401, "Bearer"]);
  const { error } = await refused.json();
  assertEquals([error.type, error.code], ["authentication_error", "invalid_api_key"]);
});

Deno.test("a Host that is not this machine is refused when bound to loopback", async () => {
  const request = (host: string): Request => new Request(`http://${host}/v1/models`);
  const status = async (host: string, hostname = "127.0.0.1"): Promise<number> => {
    const response = await testApp(new FakeEngine(), { hostname }).app.fetch(request(host));
    await response.body?.cancel();
    return response.status;
  };
  for (const host of ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "127.9.9.9", "LOCALHOST"]) {
    assertEquals(await status(host), 200, host);
  }
  for (const host of ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"]) {
    assertEquals(await status(host), 403, host);
  }
  assertEquals(await status("evil.example", "0.0.0.0"), 200);
});

Deno.test("names that the operator allows may call, on every address, and then no others but this machine's", async () => {
  const status = async (host: string, allowHosts: string[], hostname: string): Promise<number> => {
    const response = await testApp(new FakeEngine(), { hostname, allowHosts }).app.fetch(new Request(`http://${host}/v1/models`));
    await response.body?.cancel();
    return response.status;
  };
  for (const hostname of ["127.0.0.1", "0.0.0.0", "192.168.1.5"]) {
    for (const host of ["llm.home", "LLM.home:8080", "localhost", hostname]) assertEquals(await status(host, ["llm.home"], hostname), 200);
    assertEquals(await status("evil.example", ["llm.home"], hostname), 403);
    assertEquals(await status("evil.example", ["*"], hostname), 200);
  }
  assertEquals(await status("[fd00::1]:80", ["llm.home"], "fd00::1"), 200);
});

Deno.test("loopback names and addresses are known", () => {
  assertEquals(["localhost", "127.0.0.1", "::1", "[::1]", "a.localhost", "localhost."].map(isLoopback), Array(6).fill(true));
  assertEquals(["0.0.0.0", "::", "192.168.0.1", "127.0.0.1.example", "1127.0.0.1", "localhostx"].map(isLoopback), Array(6).fill(false));
});

Deno.test("without allowed origins no answer has CORS headers, and a preflight gives nothing away", async () => {
  const { get } = testApp(new FakeEngine(), { apiKeys: ["k"] });
  const headers = { origin: "https://evil.example", "access-control-request-method": "POST" };
  for (const path of ["/v1/models", CHAT, "/health", "/metrics", "/nothing"]) {
    for (const method of ["GET", "OPTIONS"]) {
      const response = await get(path, { method, headers });
      assertEquals([...response.headers.keys()].filter((name) => name.startsWith("access-control")), []);
      if (method === "OPTIONS") assertEquals([response.status, await response.text()], [204, ""]);
      else await response.body?.cancel();
    }
  }
});

Deno.test("pages of allowed origins may ask and read, without a key for the question", async () => {
  const { get } = testApp(new FakeEngine(), { apiKeys: ["k"], allowOrigins: ["https://good.example"] });
  const preflight = await get(CHAT, {
    method: "OPTIONS",
    headers: { origin: "https://good.example", "access-control-request-headers": "authorization, x-stainless-os" },
  });
  assertEquals(preflight.status, 204);
  assertEquals(preflight.headers.get("access-control-allow-origin"), "https://good.example");
  assertEquals(preflight.headers.get("access-control-allow-headers"), "authorization, x-stainless-os");
  assertEquals(preflight.headers.get("vary"), "Origin");
  const refused = await get("/v1/models", { headers: { origin: "https://good.example" } });
  assertEquals([refused.status, refused.headers.get("access-control-allow-origin")], [401, "https://good.example"]);
  const evil = await get("/v1/models", { headers: { origin: "https://evil.example", authorization: "Bearer k" } });
  assertEquals([evil.status, evil.headers.get("access-control-allow-origin"), evil.headers.get("vary")], [200, null, "Origin"]);
});

Deno.test("a form post of a page is refused, as it needs no preflight", async () => {
  const response = await testApp().post(CHAT, HELLO, { "content-type": "text/plain" });
  assertEquals([response.status, (await response.json()).error.code], [415, "unsupported_media_type"]);
});
