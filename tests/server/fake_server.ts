/** The app with a scripted engine on a real socket, and bytes sent to it as they are. */
import type { ServerOptions } from "../../src/server/options.ts";
import { type RunningServer, serve } from "../../src/server/serve.ts";
import { type FakeEngine, fakeModel } from "./fakes.ts";

/** Runs `body` with a server and stops it afterwards. */
export async function withFakeServer(
  engine: FakeEngine,
  options: Partial<ServerOptions>,
  body: (server: RunningServer) => Promise<void>,
): Promise<void> {
  const server = serve({ models: [{ model: fakeModel(), engine }], port: 0, options: { writeLog: null, ...options } });
  try {
    await body(server);
  } finally {
    await server.drain(1000);
  }
}

/** A connection that is written by hand. */
export class RawConnection implements Disposable {
  readonly #connection: Deno.TcpConn;
  #isClosed = false;

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async open(port: number): Promise<RawConnection> {
    return new RawConnection(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  async send(data: string | Uint8Array): Promise<void> {
    let rest = typeof data === "string" ? new TextEncoder().encode(data) : data;
    while (rest.length > 0) rest = rest.subarray(await this.#connection.write(rest));
  }

  /** Nothing more will be sent; answers may still come. */
  async finishSending(): Promise<void> {
    await this.#connection.closeWrite();
  }

  /** Everything that comes until the text has `wanted`, the peer closes, or `timeoutMs` are over. */
  async read(wanted: RegExp | null = null, timeoutMs = 5000): Promise<string> {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(65_536);
    const endMs = performance.now() + timeoutMs;
    let text = "";
    while (wanted === null || !wanted.test(text)) {
      const numBytes = await this.#readOrTimeout(buffer, endMs - performance.now());
      if (numBytes === null) break;
      text += decoder.decode(buffer.subarray(0, numBytes), { stream: true });
    }
    return text;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#connection.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** null at the end, when the peer breaks off, or when the time is over, which closes the connection. */
  async #readOrTimeout(buffer: Uint8Array, timeoutMs: number): Promise<number | null> {
    const timer = setTimeout(() => this.close(), Math.max(0, timeoutMs));
    try {
      return await this.#connection.read(buffer);
    } catch {
      return null;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A request as it goes over the wire. */
export function rawPost(path: string, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const all = {
    host: "localhost",
    "content-type": "application/json",
    "content-length": String(new TextEncoder().encode(body).length),
    ...headers,
  };
  return `POST ${path} HTTP/1.1\r\n${Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
}

/** The statuses of all answers in what a connection brought. */
export function statusesOf(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map((match) => Number(match[1]));
}
