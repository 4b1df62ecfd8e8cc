import { assertEquals, assertRejects } from "@std/assert";
import { readApiKeys } from "../../src/cli/api_keys.ts";
import { UsageError } from "../../src/cli/flags.ts";

async function withKeyFile(text: string, body: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, text);
    await body(path);
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("keys of the command line and of the file count together, comments and empty lines do not", async () => {
  await withKeyFile("# mine\r\nsecret-1\r\n\n  secret-2  \n", async (path) => {
    assertEquals(await readApiKeys({ apiKey: ["first"], apiKeyFile: path }), ["first", "secret-1", "secret-2"]);
  });
  assertEquals(await readApiKeys({ apiKey: [], apiKeyFile: null }), []);
});

Deno.test("a key file that is missing or empty is an error and never an open server", async () => {
  await withKeyFile("# nothing\n", async (path) => {
    await assertRejects(() => readApiKeys({ apiKey: [], apiKeyFile: path }), UsageError, "holds no key");
  });
  await assertRejects(() => readApiKeys({ apiKey: [], apiKeyFile: "no/such/file" }), UsageError, "no/such/file cannot be read");
});

Deno.test("a key that no header could carry is refused without being shown", async () => {
  for (const key of ["with space", "ümlaut", "tab\there"]) {
    const error = await assertRejects(() => readApiKeys({ apiKey: ["good", key], apiKeyFile: null }), UsageError, "API key number 2");
    assertEquals(error.message.includes(key), false);
  }
});
