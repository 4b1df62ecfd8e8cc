/** The compiled program, alone in an empty folder, with an empty home and an empty environment. */
import { join } from "node:path";
import type { CliResult } from "../cli/cli_process.ts";
import { TextLineStream } from "../../src/hub/text_lines.ts";

/** Path that `deno task test:compiled` has put in the environment. */
export function compiledPath(variable: "ROWLOCK_COMPILED" | "ROWLOCK_COMPILED_WITH_MODEL"): string {
  const path = Deno.env.get(variable);
  if (!path) throw new Error(`${variable} is not set: run deno task test:compiled`);
  return path;
}

export class CompiledProgram implements AsyncDisposable {
  private constructor(readonly folder: string, readonly home: string, readonly program: string) {}

  static async alone(path: string): Promise<CompiledProgram> {
    const folder = await Deno.makeTempDir({ prefix: "rowlock-alone-" });
    const [home, program] = [join(folder, "home"), join(folder, "rowlock")];
    await Deno.mkdir(home);
    await Deno.copyFile(path, program);
    return new CompiledProgram(folder, home, program);
  }

  /** Folder of the native library, once it is unpacked. */
  async libraryFolder(): Promise<string> {
    const native = join(this.home, ".cache", "rowlock", "native");
    for await (const { name } of Deno.readDir(native)) if (name.startsWith("bundle-")) return join(native, name);
    throw new Error(`${native} has no unpacked library`);
  }

  /** Runs a command line that ends by itself. */
  async run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliResult> {
    const { code, stdout, stderr } = await new Deno.Command(this.program, this.#options(args, env)).output();
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  /** Starts `rowlock ARGS` on a free port. */
  async serve(...args: string[]): Promise<CompiledServer> {
    const child = new Deno.Command(this.program, this.#options(["serve", "--port", "0", ...args], {})).spawn();
    return await CompiledServer.listening(child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }

  #options(args: readonly string[], env: Readonly<Record<string, string>>): Deno.CommandOptions & { stdin: "null" } {
    return {
      args: [...args],
      clearEnv: true,
      env: { HOME: this.home, ...env },
      cwd: this.folder,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    };
  }
}

export class CompiledServer implements AsyncDisposable {
  private constructor(readonly url: string, readonly child: Deno.ChildProcess, readonly ended: Promise<unknown>) {}

  static async listening(child: Deno.ChildProcess): Promise<CompiledServer> {
    const log = new Response(child.stderr).text();
    const listening = Promise.withResolvers<string | null>();
    const read = async (): Promise<void> => {
      for await (const line of child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
        const url = /^listening on (\S+)$/.exec(line)?.[1];
        if (url !== undefined) listening.resolve(url);
      }
      listening.resolve(null);
    };
    const ended = Promise.all([read(), log, child.status]);
    const url = await listening.promise;
    if (url === null) throw new Error(`The program ended with exit code ${(await child.status).code}: ${await log}`);
    return new CompiledServer(url, child, ended);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill("SIGTERM");
    await this.ended;
  }
}
