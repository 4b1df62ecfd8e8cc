/** Running other programs. */
import { TextLineStream } from "./text_lines.ts";

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Called with every line of standard output and standard error. */
  readonly onLine?: (line: string) => void;
  /** Ends the program after this time. */
  readonly timeoutMs?: number;
}

export interface CommandResult {
  /** Exit code; 127 when the program could not be started. */
  readonly code: number;
  /** The last lines of standard output and standard error, in the order in which they arrived. */
  readonly tail: readonly string[];
}

const TAIL_LINES = 40;
const NOT_FOUND = 127;

export class CommandError extends Error {
  override name = "CommandError";
}

/** Runs a program to its end, whatever its exit code. Never throws for a program that is missing: that is code 127. */
export async function tryCommand(command: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  const [program = "", ...args] = command;
  const tail: string[] = [];
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(program, spawnOptions(args, options)).spawn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { code: NOT_FOUND, tail: [`${program}: not found`] };
    throw error;
  }
  const onLine = (line: string): void => {
    tail.push(line);
    if (tail.length > TAIL_LINES) tail.shift();
    options.onLine?.(line);
  };
  const timer = options.timeoutMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), options.timeoutMs);
  try {
    const [status] = await Promise.all([child.status, readLines(child.stdout, onLine), readLines(child.stderr, onLine)]);
    return { code: status.code, tail };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Runs a program that has to succeed and gives its last lines.
 * @throws {CommandError} with the command, its exit code and its last lines.
 */
export async function runCommand(command: readonly string[], options: CommandOptions = {}): Promise<readonly string[]> {
  const { code, tail } = await tryCommand(command, options);
  if (code !== 0) throw new CommandError(`${command.join(" ")} ended with exit code ${code}:\n${tail.join("\n")}`);
  return tail;
}

function spawnOptions(args: string[], options: CommandOptions): Deno.CommandOptions {
  return {
    args,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env: { ...options.env } }),
  };
}

async function readLines(stream: ReadableStream<Uint8Array<ArrayBuffer>>, onLine: (line: string) => void): Promise<void> {
  for await (const line of stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) onLine(line);
}
