/** The hub's protocol: what a revision holds, and a file's bytes from an offset on. */
import { HubError } from "./hub_error.ts";
import type { HubSettings } from "./hub_settings.ts";
import { checkFilePath } from "./repository_cache.ts";

export interface RemoteFile {
  readonly path: string;
  readonly numBytes: number;
  /** SHA-256 of the content for large files, else the SHA-1 that git gives it: 64 or 40 hexadecimal digits. */
  readonly hash: string;
}

export interface Revision {
  readonly commit: string;
  readonly files: ReadonlyMap<string, RemoteFile>;
}

export interface HubClientOptions {
  /** How often one request is sent at most. @default 5 */
  readonly numAttempts?: number;
  /** Wait before the second attempt; it doubles with each. @default 500 */
  readonly retryDelayMs?: number;
  /** Silence after which a connection counts as broken. @default 30,000 */
  readonly stallTimeoutMs?: number;
}

const DEFAULTS: Required<HubClientOptions> = { numAttempts: 5, retryDelayMs: 500, stallTimeoutMs: 30_000 };
const MAX_REDIRECTS = 5;
const MAX_RETRY_AFTER_MS = 60_000;
const REDIRECTS = [301, 302, 303, 307, 308];

export class HubClient {
  readonly options: Required<HubClientOptions>;

  constructor(readonly settings: HubSettings, options: HubClientOptions = {}) {
    this.options = { ...DEFAULTS, ...options };
  }

  /** Files of a branch, tag or commit, with sizes and hashes. @throws {HubError} */
  async revision(repository: string, revision: string): Promise<Revision> {
    const url = `${this.settings.endpoint}/api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`;
    const silence = new AbortController();
    const response = await this.#get(url, {}, `${repository}@${revision}`, silence.signal);
    const timer = setTimeout(() => silence.abort(new Error("it did not come to an end")), this.options.stallTimeoutMs);
    let answer: unknown;
    try {
      answer = await response.json();
    } catch (error) {
      throw new HubError(`The answer of ${url} cannot be read: ${(error as Error).message}`, true);
    } finally {
      clearTimeout(timer);
    }
    return readRevision(repository, answer);
  }

  /**
   * A file's bytes from `offset` on; status 200 means that the answer begins at 0 all the same.
   * @param signal ends the transfer.
   * @throws {HubError}
   */
  async open(repository: string, commit: string, path: string, offset: number, signal: AbortSignal): Promise<Response> {
    const url = `${this.settings.endpoint}/${repository}/resolve/${commit}/${path.split("/").map(encodeURIComponent).join("/")}`;
    // Compressed, neither size nor offset would be those of the file.
    const headers = { "accept-encoding": "identity", ...(offset > 0 ? { range: `bytes=${offset}-` } : {}) };
    return await this.#get(url, headers, `${repository}/${path}`, signal);
  }

  /** Waits longer with every attempt. */
  async pause(attempt: number, leastMs = 0): Promise<void> {
    const delayMs = Math.max(leastMs, this.options.retryDelayMs * 2 ** (attempt - 1));
    await new Promise((resolve) => setTimeout(resolve, delayMs));
  }

  /** Asks again while the hub is busy or cannot be reached. */
  async #get(url: string, headers: Record<string, string>, what: string, signal?: AbortSignal): Promise<Response> {
    for (let attempt = 1;; attempt++) {
      const result = await this.#send(url, headers, signal).catch((error: unknown) => {
        if (error instanceof HubError) throw error;
        return error as Error;
      });
      if (result instanceof Response && (result.ok || result.status === 416)) return result;
      const isWorthAnother = result instanceof Error || result.status === 429 || result.status >= 500;
      if (!isWorthAnother || attempt >= this.options.numAttempts) throw await this.#failure(result, url, what);
      const leastMs = result instanceof Response ? retryAfterMs(result) : 0;
      if (result instanceof Response) await result.body?.cancel();
      await this.pause(attempt, leastMs);
    }
  }

  async #send(url: string, headers: Record<string, string>, signal?: AbortSignal): Promise<Response> {
    let target = new URL(url);
    const home = target.origin;
    for (let numRedirects = 0; numRedirects <= MAX_REDIRECTS; numRedirects++) {
      // A storage host has no business with the token, and its signed addresses refuse one.
      const authorization = this.settings.token !== null && target.origin === home
        ? { authorization: `Bearer ${this.settings.token}` }
        : undefined;
      const response = await this.#fetch(target, { "user-agent": "rowlock", ...headers, ...authorization }, signal);
      const location = response.headers.get("location");
      if (!REDIRECTS.includes(response.status) || location === null) return response;
      await response.body?.cancel();
      const next = new URL(location, target);
      if (next.protocol !== "https:" && next.protocol !== target.protocol) {
        throw new HubError(`${target.origin} redirects to ${next.protocol}//${next.host}, which is not as safe; expected https`);
      }
      target = next;
    }
    throw new HubError(`${url} redirects more than ${MAX_REDIRECTS} times`);
  }

  async #fetch(url: URL, headers: Record<string, string>, signal?: AbortSignal): Promise<Response> {
    const silence = new AbortController();
    const timer = setTimeout(
      () => silence.abort(new Error(`no answer for ${this.options.stallTimeoutMs} ms`)),
      this.options.stallTimeoutMs,
    );
    try {
      const signals = signal === undefined ? [silence.signal] : [silence.signal, signal];
      return await fetch(url, { headers, redirect: "manual", signal: AbortSignal.any(signals) });
    } finally {
      clearTimeout(timer);
    }
  }

  async #failure(result: Response | Error, url: string, what: string): Promise<HubError> {
    const { host } = new URL(url);
    if (result instanceof Error) return new HubError(`Cannot reach the hub at ${host} for ${what}: ${lastCause(result)}`, true);
    await result.body?.cancel();
    const { status } = result;
    const code = result.headers.get("x-error-code");
    if (status === 401 || status === 403) {
      const remedy = this.settings.token === null
        ? "set HF_TOKEN if it is private or gated"
        : `check that HF_TOKEN may read it${code === "GatedRepo" ? " and that its licence was accepted on the hub" : ""}`;
      return new HubError(`The hub at ${host} refuses ${what} (${status}): there is no such repository for you; ${remedy}`);
    }
    if (status === 404) return new HubError(`The hub at ${host} has no ${what} (404${code === null ? "" : ` ${code}`})`);
    return new HubError(`The hub at ${host} answers ${status} to ${what}`, status === 429 || status >= 500);
  }
}

/** Of "error sending request for url (…): client error (Connect): dns error: …", which may itself be a cause, what a person can use. */
function lastCause({ message, cause }: Error): string {
  const text = cause instanceof Error ? cause.message : message;
  return text.startsWith("error sending request") ? text.split(": ").at(-1)! : text;
}

function retryAfterMs(response: Response): number {
  const seconds = Number(response.headers.get("retry-after") ?? 0);
  return Number.isFinite(seconds) ? Math.min(MAX_RETRY_AFTER_MS, Math.max(0, seconds * 1000)) : 0;
}

interface Answer {
  readonly sha?: unknown;
  readonly siblings?: unknown;
}
interface Sibling {
  readonly rfilename?: unknown;
  readonly size?: unknown;
  readonly blobId?: unknown;
  readonly lfs?: { readonly size?: unknown; readonly sha256?: unknown } | null;
}

function readRevision(repository: string, answer: unknown): Revision {
  const { sha, siblings } = (answer ?? {}) as Answer;
  if (typeof sha !== "string" || !/^[0-9a-f]{40}$/.test(sha) || !Array.isArray(siblings)) {
    throw new HubError(`The hub's answer about ${repository} has no commit and no files`);
  }
  return { commit: sha, files: new Map((siblings as Sibling[]).map((sibling) => readSibling(repository, sibling))) };
}

function readSibling(repository: string, { rfilename, size, blobId, lfs }: Sibling): [string, RemoteFile] {
  const path = checkFilePath(repository, String(rfilename));
  const numBytes = lfs?.size ?? size;
  const hash = lfs?.sha256 ?? blobId;
  const isHash = typeof hash === "string" && (lfs ? /^[0-9a-f]{64}$/ : /^[0-9a-f]{40}$/).test(hash);
  if (!Number.isSafeInteger(numBytes) || (numBytes as number) < 0 || !isHash) {
    throw new HubError(`The hub tells no size and hash of ${repository}/${path}: it could not be checked`);
  }
  return [path, { path, numBytes: numBytes as number, hash }];
}
