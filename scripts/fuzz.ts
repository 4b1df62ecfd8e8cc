/**
 * `deno task fuzz`: random requests from the OpenAPI document for five minutes, from schemathesis against a real server where Python can be had, else from
 * the suite's own generator. Arguments: `--seconds N`, `--seed N`.
 */
import { parseArgs } from "node:util";
import { startChildServer } from "../src/cli/bench/child_server.ts";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { setup } from "./setup.ts";
import { pythonPackages } from "./testing/python_packages.ts";
import { runTestFile } from "./testing/run_test_file.ts";

const CHECKS = [
  "not_a_server_error",
  "status_code_conformance",
  "content_type_conformance",
  "response_headers_conformance",
  "response_schema_conformance",
];
const START = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())";

interface FuzzOptions {
  readonly seconds: number;
  readonly seed: number;
}

/** What a greedy request gets: the same before and after. */
async function control(url: string): Promise<string> {
  const body = JSON.stringify({ prompt: "The sky is", max_tokens: 8, temperature: 0 });
  const response = await fetch(`${url}/v1/completions`, { method: "POST", headers: { "content-type": "application/json" }, body });
  return (await response.json()).choices?.[0]?.text ?? `status ${response.status}`;
}

async function schemathesis(env: Readonly<Record<string, string>>, { seconds, seed }: FuzzOptions): Promise<boolean> {
  // Requests without a limit of their own must not fill the time with one long answer.
  const server = await startChildServer(["--max-context", "64", "--max-batch", "8", "--body-timeout", "5"], "error");
  try {
    const before = await control(server.url);
    const args = ["run", `${server.url}/openapi.json`, "--checks", CHECKS.join(), "--max-time", `${seconds}`, "--seed", `${seed}`];
    // With more workers the generator itself fails now and then: its threads draw from one source.
    const options: Deno.CommandOptions = {
      args: ["-c", START, ...args, "--workers", "1", "--request-timeout", "60", "--warnings", "off", "--generation-database", "none"],
      env: { ...env },
      stdin: "null",
      stdout: "inherit",
      stderr: "inherit",
    };
    const { code } = await new Deno.Command("python3", options).spawn().status;
    const after = await control(server.url);
    console.log(after === before ? "The control request gets what it got before" : `The control request got ${before}, now ${after}`);
    return code === 0 && after === before;
  } finally {
    await server.stop();
  }
}

async function fuzz(options: FuzzOptions): Promise<boolean> {
  const packages = await pythonPackages("schemathesis", ["schemathesis==4.32.5"]);
  if ("missing" in packages) {
    console.log(`Without schemathesis (${packages.missing}): the suite's own generator runs instead`);
    return await runTestFile("tests/server/fuzz_test.ts", {
      ROWLOCK_FUZZ_SECONDS: `${options.seconds}`,
      ROWLOCK_FUZZ_SEED: `${options.seed}`,
    });
  }
  const { libraryPath } = await setup(new TerminalProgress());
  Deno.env.set("ROWLOCK_LIBRARY", libraryPath);
  return await schemathesis(packages.env, options);
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: { seconds: { type: "string", default: "300" }, seed: { type: "string", default: `${Math.floor(Math.random() * 2 ** 31)}` } },
  });
  Deno.exit(await fuzz({ seconds: Number(values.seconds), seed: Number(values.seed) }) ? 0 : 1);
}
