import { assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../../packaging/install.sh", import.meta.url));
const SUPPORTED = Deno.build.os === "linux" || Deno.build.os === "darwin";
const NAME = `rowlock-${Deno.build.os === "darwin" ? "macos" : "linux"}-${Deno.build.arch}`;
const PROGRAM = "#!/bin/sh\necho rowlock 9.9.9\necho more\n";

interface Installed {
  readonly code: number;
  readonly output: string;
  readonly home: string;
}

/** Runs the script with a release on loopback that has these files. */
async function install(
  files: Readonly<Record<string, string>>,
  args: readonly string[],
  check: (installed: Installed) => Promise<void>,
): Promise<void> {
  const home = await Deno.makeTempDir();
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const text = files[new URL(request.url).pathname.slice(1)];
    return text === undefined ? new Response("none", { status: 404 }) : new Response(text);
  });
  try {
    const env = {
      HOME: home,
      PATH: Deno.env.get("PATH") ?? "",
      ROWLOCK_DOWNLOADS: `http://127.0.0.1:${(server.addr as Deno.NetAddr).port}`,
    };
    const command = new Deno.Command("sh", { args: [SCRIPT, ...args], clearEnv: true, env, stdout: "piped", stderr: "piped" });
    const { code, stdout, stderr } = await command.output();
    await check({ code, output: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr), home });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

function sumsOf(name: string, text: string): string {
  return `${"0".repeat(64)}  other-file\n${createHash("sha256").update(text).digest("hex")}  ${name}\n`;
}

function installedFiles(home: string): string[] {
  return [...Deno.readDirSync(join(home, ".local", "bin"))].map(({ name }) => name);
}

Deno.test({
  name: "the installer puts a program whose sum is right into the user's own folder, ready to run",
  ignore: !SUPPORTED,
  fn: async () => {
    await install({ SHA256SUMS: sumsOf(NAME, PROGRAM), [NAME]: PROGRAM }, [], async ({ code, output, home }) => {
      assertEquals([code, installedFiles(home)], [0, ["rowlock"]], output);
      const path = join(home, ".local", "bin", "rowlock");
      assertEquals([await Deno.readTextFile(path), (await Deno.stat(path)).mode! & 0o777], [PROGRAM, 0o755]);
      assertStringIncludes(output, `Installed rowlock 9.9.9 as ${path}\n`);
      assertStringIncludes(output, "is not in PATH");
    });
  },
});

Deno.test({
  name: "the installer takes the program with the model when it is asked to",
  ignore: !SUPPORTED,
  fn: async () => {
    const name = `${NAME}-with-model`;
    await install({ SHA256SUMS: sumsOf(name, PROGRAM), [name]: PROGRAM }, ["--with-model"], ({ code, output, home }) => {
      assertEquals([code, installedFiles(home)], [0, ["rowlock"]], output);
      return Promise.resolve();
    });
  },
});

Deno.test({
  name: "the installer installs nothing that has another sum, no sum, or does not run",
  ignore: !SUPPORTED,
  fn: async () => {
    const broken = "#!/bin/sh\nexit 3\n";
    const cases: [Record<string, string>, string][] = [
      [{ SHA256SUMS: sumsOf(NAME, `${PROGRAM} `), [NAME]: PROGRAM }, "nothing was installed"],
      [{ SHA256SUMS: sumsOf("rowlock-plan9", PROGRAM), [NAME]: PROGRAM }, `no SHA-256 for ${NAME}`],
      [{ SHA256SUMS: sumsOf(NAME, broken), [NAME]: broken }, "does not run on this machine"],
      [{ SHA256SUMS: sumsOf(NAME, PROGRAM) }, "404"],
    ];
    for (const [files, message] of cases) {
      await install(files, [], ({ code, output, home }) => {
        assertEquals([code !== 0, installedFiles(home)], [true, []], output);
        assertStringIncludes(output, message);
        return Promise.resolve();
      });
    }
  },
});

Deno.test({
  name: "the installer of a checkout says that it belongs to no release, and refuses arguments that it does not know",
  ignore: !SUPPORTED,
  fn: async () => {
    const { code, stderr } = await new Deno.Command("sh", {
      args: [SCRIPT],
      env: { ROWLOCK_DOWNLOADS: "" },
      stderr: "piped",
      stdout: "null",
    }).output();
    assertEquals(code, 1);
    assertStringIncludes(new TextDecoder().decode(stderr), "from a checkout");
    await install({}, ["--model"], ({ code, output }) => {
      assertEquals(code, 1);
      assertStringIncludes(output, "unknown argument --model");
      return Promise.resolve();
    });
  },
});
