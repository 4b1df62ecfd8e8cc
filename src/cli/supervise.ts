/** `serve --supervise`: a parent that starts the serving process again when it dies, as a fault in a GPU driver makes it do. */
import { selfCommand } from "./self_command.ts";

/** Set for the serving process, so that it knows. */
export const SUPERVISED = "ROWLOCK_SUPERVISED";
/** Exit code of a serving process that could not start: starting it again would fail in the same way. */
export const CANNOT_START = 78;
/** Exit code of a serving process whose engine is lost. */
export const ENGINE_LOST = 70;

const FAILED = 1;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
/** A process that ran for this long was well: the next wait is short again. */
const STEADY_MS = 60_000;

export interface ExitStatus {
  readonly code: number;
  readonly signal: string | null;
}

/** What the supervisor does to the world, so that tests can bring their own. */
export interface SupervisorPort {
  /** Runs the serving process to its end. */
  run(): Promise<ExitStatus>;
  /** Resolves after the time, or sooner when the supervisor is told to stop. */
  wait(delayMs: number): Promise<void>;
  now(): number;
  note(text: string): void;
  /** Whether the supervisor was told to stop. */
  readonly isStopping: boolean;
}

/** Runs the serving process again and again, with growing waits, until it ends in order or cannot start. Gives the exit code. */
export async function keepRunning(port: SupervisorPort): Promise<number> {
  let delayMs = FIRST_DELAY_MS;
  while (true) {
    const startedMs = port.now();
    const { code, signal } = await port.run();
    if (code === CANNOT_START) return FAILED;
    if (code === 0 || port.isStopping) return code;
    if (port.now() - startedMs >= STEADY_MS) delayMs = FIRST_DELAY_MS;
    const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
    port.note(`The serving process ended ${how}; it is started again in ${delayMs / 1000} s`);
    await port.wait(delayMs);
    if (port.isStopping) return code;
    delayMs = Math.min(2 * delayMs, MAX_DELAY_MS);
  }
}

/** Supervises `rowlock ARGS`. SIGINT and SIGTERM are handed on. */
export async function supervise(args: readonly string[]): Promise<number> {
  const process = new ServingProcess(args);
  const signals: Deno.Signal[] = ["SIGINT", "SIGTERM"];
  const listeners = signals.map((signal) => [signal, (): void => process.stop(signal)] as const);
  for (const [signal, listener] of listeners) Deno.addSignalListener(signal, listener);
  try {
    return await keepRunning(process);
  } finally {
    for (const [signal, listener] of listeners) Deno.removeSignalListener(signal, listener);
  }
}

class ServingProcess implements SupervisorPort {
  isStopping = false;
  #child: Deno.ChildProcess | null = null;
  #wake: () => void = () => {};

  constructor(readonly args: readonly string[]) {}

  async run(): Promise<ExitStatus> {
    const { program, args } = selfCommand(this.args);
    // The pipe ends with this process, however it ends: that is how the serving process learns of it. A group of its own keeps the
    // terminal from sending it an interrupt that it gets from here as well.
    const child = new Deno.Command(program, {
      args,
      env: { [SUPERVISED]: "1" },
      detached: true,
      stdin: "piped",
      stdout: "inherit",
      stderr: "inherit",
    }).spawn();
    this.#child = child;
    const { code, signal } = await child.status;
    this.#child = null;
    await child.stdin.abort().catch(() => {});
    return { code, signal };
  }

  async wait(delayMs: number): Promise<void> {
    const woken = Promise.withResolvers<void>();
    this.#wake = woken.resolve;
    const timer = setTimeout(woken.resolve, delayMs);
    if (!this.isStopping) await woken.promise;
    clearTimeout(timer);
  }

  now(): number {
    return performance.now();
  }

  note(text: string): void {
    console.error(`rowlock: ${text}`);
  }

  stop(signal: Deno.Signal): void {
    this.isStopping = true;
    this.#wake();
    this.#child?.kill(signal);
  }
}
