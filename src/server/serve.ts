/** The application on a socket. */
import { EngineError } from "../engine/engine.ts";
import { type App, type AppOptions, createApp } from "./app.ts";
import { errorResponse, toApiError } from "./errors.ts";
import { withDefaults } from "./options.ts";
import { BrokenOffError } from "./streamed_body.ts";

export interface ServeOptions extends AppOptions {
  /** 0 takes a free one. */
  readonly port: number;
}

export interface RunningServer {
  readonly hostname: string;
  readonly port: number;
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  readonly app: App;
  /**
   * Lets running requests end for up to `timeoutMs`, then ends what is left: streams with an error event. New requests are told meanwhile that the server
   * is shutting down, on new connections too: who is refused one does not learn why. Called again, it ends at once.
   */
  drain(timeoutMs: number): Promise<void>;
  /** Resolves when the server has ended. */
  readonly finished: Promise<void>;
}

/** How long a reader gets to take its terminal event before its connection is closed. */
const LAST_EVENT_MS = 1_000;

/** Starts to serve. @throws {Deno.errors.AddrInUse} and what else the operating system says about the address. */
export function serve({ port, ...appOptions }: ServeOptions): RunningServer {
  const app = createApp(appOptions);
  const { hostname } = withDefaults(appOptions.options ?? {});
  const abort = new AbortController();
  const server = Deno.serve({ hostname, port, signal: abort.signal, onListen: () => {}, onError: reportError }, app.fetch);
  const address = server.addr as Deno.NetAddr;
  let endNow: (() => void) | null = null;

  const drain = async (timeoutMs: number): Promise<void> => {
    if (endNow !== null) return endNow();
    const hurry = Promise.withResolvers<void>();
    endNow = hurry.resolve;
    app.drain();
    let isClosed = false;
    let closed: Promise<void> | null = null;
    const close = (): Promise<void> => closed ??= server.shutdown().then(() => void (isClosed = true));
    await firstOf([app.idle().then(close), hurry.promise], timeoutMs);
    app.abortAll(new EngineError("shutting_down", "The server is shutting down"));
    await firstOf([close()], LAST_EVENT_MS);
    // Deno throws when a server that has ended is aborted.
    if (!isClosed) abort.abort();
    await server.finished;
    await app.close();
  };
  const host = address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname;
  return { hostname: address.hostname, port: address.port, url: `http://${host}:${address.port}`, app, drain, finished: server.finished };
}

/** What no answer could be made of. A body that was broken off on purpose comes here too, when its client has been told and the log has its line. */
function reportError(error: unknown): Response {
  if (!(error instanceof BrokenOffError)) console.error(error);
  return errorResponse(toApiError(error));
}

/** Waits for the first of `promises`, or for the time. */
async function firstOf(promises: readonly Promise<void>[], timeoutMs: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<void>((resolve) => timer = setTimeout(resolve, timeoutMs));
  await Promise.race([...promises, timeout]);
  clearTimeout(timer);
}
