import { assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { HubError } from "../../src/hub/hub_error.ts";
import { hubSettings } from "../../src/hub/hub_settings.ts";
import { withFolder } from "./fake_hub.ts";

Deno.test("the variables mean what they mean to Python", () => {
  const { endpoint, token, cache, isOffline } = hubSettings({ HOME: "/home/me" });
  assertEquals([endpoint, token, cache, isOffline], ["https://huggingface.co", null, "/home/me/.cache/huggingface/hub", false]);
  assertEquals(hubSettings({ HOME: "/h", XDG_CACHE_HOME: "/x" }).cache, "/x/huggingface/hub");
  assertEquals(hubSettings({ HOME: "/h", HF_HOME: "/data/hf" }).cache, "/data/hf/hub");
  assertEquals(hubSettings({ HOME: "/h", HF_HOME: "/data/hf", HF_HUB_CACHE: "/models" }).cache, "/models");
  const set = hubSettings({ HOME: "/h", HF_ENDPOINT: "http://127.0.0.1:9/hub/", HF_TOKEN: " hf_x\n", HF_HUB_OFFLINE: "YES" });
  assertEquals([set.endpoint, set.token, set.isOffline], ["http://127.0.0.1:9/hub", "hf_x", true]);
  assertEquals(hubSettings({ HOME: "/h", HF_HUB_OFFLINE: "0" }).isOffline, false);
});

Deno.test("the token of an earlier login is used, and HF_TOKEN wins over it", async () => {
  await withFolder(async (home) => {
    await Deno.writeTextFile(join(home, "token"), "hf_file\n");
    assertEquals(hubSettings({ HF_HOME: home }).token, "hf_file");
    assertEquals(hubSettings({ HF_HOME: home, HF_TOKEN: "hf_named" }).token, "hf_named");
  });
});

Deno.test("settings that cannot work are refused, the token unseen", () => {
  assertThrows(() => hubSettings({ HOME: "/h", HF_ENDPOINT: "hub.local" }), HubError, 'HF_ENDPOINT is "hub.local"');
  const error = assertThrows(() => hubSettings({ HOME: "/h", HF_TOKEN: "hf_sécret" }), HubError, "HF_TOKEN has a character");
  assertEquals(error.message.includes("cret"), false);
  assertThrows(() => hubSettings({}), HubError, "HF_HOME");
});
