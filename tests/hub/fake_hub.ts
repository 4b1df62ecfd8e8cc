/** A hub on loopback that can be told to break off, to lie, to redirect and to refuse. */
import { createHash } from "node:crypto";
import type { FetchOptions } from "../../src/hub/fetch_model.ts";
import { SILENT } from "../../src/hub/progress.ts";

export const REPOSITORY = "acme/tiny-model";
export const COMMIT = "0123456789abcdef0123456789abcdef01234567";

export interface SeenRequest {
  readonly path: string;
  readonly range: string | null;
  readonly authorization: string | null;
  readonly userAgent: string | null;
}

/** Answers in place of the hub; null lets the hub answer. */
export type Fault = (request: Request, path: string, numBefore: number) => Response | Promise<Response> | null;

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function gitHash(bytes: Uint8Array): string {
  return createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
}

/** Bytes that no offset repeats. */
export function someBytes(numBytes: number, seed = 1): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: numBytes }, (_, i) => (i * 31 + (i >> 8) * 17 + seed * 101) & 0xff);
}

export const TINY_FILES: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {
  "config.json": new TextEncoder().encode('{"model_type":"llama"}'),
  "generation_config.json": new TextEncoder().encode("{}"),
  "tokenizer.json": new TextEncoder().encode('{"version":"1.0"}'),
  "model.safetensors": someBytes(300_000),
  "README.md": new TextEncoder().encode("# not needed"),
  "pytorch_model.bin": someBytes(1000, 2),
};

export class FakeHub implements AsyncDisposable {
  files = new Map(Object.entries(TINY_FILES));
  commit = COMMIT;
  fault: Fault = () => null;
  /** What the listing says about a file, in place of the truth. */
  lies = new Map<string, Record<string, unknown>>();
  /** Large files are stored elsewhere, as on the real hub: the hub redirects there. */
  storage: FakeHub | null = null;
  readonly seen: SeenRequest[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  /** @param host another name of the loopback address is another host to a client. */
  constructor(readonly host = "127.0.0.1") {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => this.#answer(request));
  }

  get endpoint(): string {
    return `http://${this.host}:${this.#server.addr.port}`;
  }

  /** Paths that were asked for, in order. */
  get paths(): string[] {
    return this.seen.map(({ path }) => path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #answer(request: Request): Promise<Response> {
    const path = decodeURIComponent(new URL(request.url).pathname);
    const numBefore = this.seen.filter((seen) => seen.path === path).length;
    const { headers } = request;
    this.seen.push({
      path,
      range: headers.get("range"),
      authorization: headers.get("authorization"),
      userAgent: headers.get("user-agent"),
    });
    const faulty = await this.fault(request, path, numBefore);
    if (faulty !== null) return faulty;
    if (path.startsWith(`/api/models/${REPOSITORY}/revision/`)) return Response.json(this.#listing());
    const file = path.replace(`/${REPOSITORY}/resolve/${this.commit}/`, "");
    const bytes = this.files.get(file);
    if (bytes === undefined) return new Response("Not found", { status: 404, headers: { "x-error-code": "EntryNotFound" } });
    if (this.storage !== null && isLarge(file)) return redirect(`${this.storage.endpoint}${path}`);
    return ranged(bytes, headers.get("range"));
  }

  #listing(): unknown {
    const siblings = [...this.files].map(([rfilename, bytes]) => ({
      rfilename,
      size: bytes.length,
      blobId: gitHash(bytes),
      ...(isLarge(rfilename) ? { lfs: { sha256: sha256(bytes), size: bytes.length, pointerSize: 134 } } : {}),
      ...this.lies.get(rfilename),
    }));
    return { id: REPOSITORY, sha: this.commit, siblings };
  }
}

function isLarge(path: string): boolean {
  return /\.(safetensors|gguf|bin)$/.test(path);
}

export function redirect(location: string): Response {
  return new Response(null, { status: 302, headers: { location } });
}

export function ranged(bytes: Uint8Array<ArrayBuffer>, range: string | null): Response {
  const start = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0);
  if (range === null) return new Response(bytes);
  if (start >= bytes.length) return new Response(null, { status: 416 });
  const headers = { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
  return new Response(bytes.subarray(start), { status: 206, headers });
}

/** An answer that promises all of `bytes` and whose connection ends after `numBytes`. */
export function broken(bytes: Uint8Array<ArrayBuffer>, numBytes: number, init: ResponseInit = {}): Response {
  const body = new ReadableStream({
    async start(controller): Promise<void> {
      controller.enqueue(bytes.subarray(0, numBytes));
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.close();
    },
  });
  return new Response(body, { ...init, headers: { ...init.headers, "content-length": `${bytes.length}` } });
}

/** Options of a fetch against `hub` into `cache`, quick to give up. */
export function fetchOptions(hub: FakeHub, cache: string, token: string | null = null): FetchOptions & { settings: { cache: string } } {
  return {
    settings: { endpoint: hub.endpoint, token, cache, isOffline: false },
    progress: SILENT,
    client: { numAttempts: 3, retryDelayMs: 1, stallTimeoutMs: 2_000 },
  };
}

export async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs `body` with these variables set, for this process and for those that it starts. */
export async function withEnvironment(values: Readonly<Record<string, string>>, body: () => Promise<void>): Promise<void> {
  const saved = Object.keys(values).map((name) => [name, Deno.env.get(name)] as const);
  try {
    for (const [name, value] of Object.entries(values)) Deno.env.set(name, value);
    await body();
  } finally {
    for (const [name, value] of saved) value === undefined ? Deno.env.delete(name) : Deno.env.set(name, value);
  }
}
