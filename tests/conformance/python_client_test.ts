/** The official Python client against a real server, where Python and its packages can be had. */
import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runCommand } from "../../src/hub/command.ts";
import { pythonPackages } from "../../scripts/testing/python_packages.ts";
import { withRealServer } from "../e2e/real_server.ts";

const SCRIPT = fileURLToPath(new URL("./python_client.py", import.meta.url));
const PROMPT = "Name three colours.";

const packages = await pythonPackages("openai", ["openai==3.57.0"]);
if ("missing" in packages) console.log(`The Python client is not tested: ${packages.missing}`);

Deno.test({
  name: "the official Python client chats, streams, scores and sees errors with their class, code and parameter",
  ignore: "missing" in packages,
  fn: async () => {
    if ("missing" in packages) return;
    await withRealServer({}, async (server) => {
      const output = await runCommand(["python3", SCRIPT, `${server.url}/v1`, PROMPT], { env: packages.env, timeoutMs: 120_000 });
      const seen = JSON.parse(output.at(-1) ?? "");
      const [first, second] = await server.chatAll(PROMPT, { temperature: 0.8, seed: 7, max_tokens: 12, n: 2 });
      assertEquals(seen.whole, [first!.text, second!.text]);
      assertEquals([seen.usage, seen.logprob_bytes, seen.helper], [24, first!.text, first!.text]);
      assertEquals(seen.streamed, [first!.text, "length", 12]);
      assertEquals([seen.models.length, seen.scored], [1, [2, 1]]);
      assert(seen.extra.length > 0);
      assertEquals(seen.range, ["UnprocessableEntityError", 422, "out_of_range", "temperature", true]);
      assertEquals(seen.model, ["NotFoundError", 404, "model_not_found", "model", true]);
      assertEquals(seen.type, ["BadRequestError", 400, "invalid_value", "stop", true]);
      // The last stream was left in its middle.
      await server.untilMetric("rowlock_rows_active", 0);
    });
  },
});
