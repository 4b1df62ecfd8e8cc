/** Who may talk to the server: API keys, the Host check against DNS rebinding, CORS. */
import { createHash, timingSafeEqual } from "node:crypto";
import { ApiError } from "./errors.ts";

export interface SecurityOptions {
  /** Any of these opens every route; empty: no key is asked for. */
  readonly apiKeys: readonly string[];
  /** Origins whose pages may read answers; "*" for all. Empty: CORS is off. */
  readonly allowOrigins: readonly string[];
  /** Names, besides this machine's own, that requests may call the server by; "*" for any. Empty, on an address that is not loopback: any. */
  readonly allowHosts: readonly string[];
  /** The address that the server is bound to. A loopback one turns the Host check on. */
  readonly hostname: string;
}

/** What a page of an allowed origin may send and read. */
const ALLOWED_METHODS = "GET, HEAD, POST, OPTIONS";
const EXPOSED_HEADERS = "x-request-id, retry-after";

export class Security {
  readonly #keyDigests: readonly Uint8Array[];
  readonly #allowOrigins: ReadonlySet<string>;
  readonly #allowHosts: ReadonlySet<string>;
  readonly #isHostChecked: boolean;

  constructor(options: SecurityOptions) {
    this.#keyDigests = options.apiKeys.map(digest);
    this.#allowOrigins = new Set(options.allowOrigins);
    const { hostname, allowHosts } = options;
    this.#isHostChecked = !allowHosts.includes("*") && (isLoopback(hostname) || allowHosts.length > 0);
    // The address itself is no name that somebody could point elsewhere.
    this.#allowHosts = new Set([...allowHosts, hostname.includes(":") ? `[${hostname}]` : hostname].map((host) => host.toLowerCase()));
  }

  /**
   * A page whose own name was pointed at 127.0.0.1 is same-origin for the browser; only its Host header gives it away.
   * @throws {ApiError} 403.
   */
  checkHost(request: Request): void {
    if (!this.#isHostChecked) return;
    const host = request.headers.get("host") ?? new URL(request.url).host;
    const name = hostnameOf(host);
    if (isLoopback(name) || this.#allowHosts.has(name)) return;
    const allowed = [...new Set(["localhost", "127.0.0.1", "[::1]", ...this.#allowHosts])].join(", ");
    throw new ApiError(403, `The Host header must be one of ${allowed}; found ${JSON.stringify(host.slice(0, 100))}`, {
      code: "host_not_allowed",
    });
  }

  /** @throws {ApiError} 401. */
  checkKey(request: Request): void {
    if (this.#keyDigests.length === 0) return;
    const header = request.headers.get("authorization") ?? "";
    const key = /^Bearer +(\S+) *$/i.exec(header)?.[1];
    if (key !== undefined && this.#isKnown(key)) return;
    const message = key === undefined ? "An API key is needed: send the header Authorization: Bearer KEY" : "The API key is not valid";
    throw new ApiError(401, message, { code: "invalid_api_key", headers: { "www-authenticate": "Bearer" } });
  }

  /** Looks at every key and at digests of one length, so that the time says nothing about the keys. */
  #isKnown(key: string): boolean {
    const given = digest(key);
    return this.#keyDigests.reduce((isFound, known) => timingSafeEqual(known, given) || isFound, false);
  }

  /** Adds the headers that let an allowed page read the answer. */
  addCorsHeaders(request: Request, headers: Headers): void {
    if (this.#allowOrigins.size === 0) return;
    headers.append("vary", "Origin");
    const origin = request.headers.get("origin");
    if (origin === null || !(this.#allowOrigins.has(origin) || this.#allowOrigins.has("*"))) return;
    headers.set("access-control-allow-origin", this.#allowOrigins.has("*") ? "*" : origin);
    headers.set("access-control-expose-headers", EXPOSED_HEADERS);
    if (request.method !== "OPTIONS") return;
    headers.set("access-control-allow-methods", ALLOWED_METHODS);
    // "*" does not cover Authorization, and clients send many x-stainless-* headers: name what was asked for.
    headers.set("access-control-allow-headers", request.headers.get("access-control-request-headers") ?? "authorization, content-type");
    headers.set("access-control-max-age", "600");
  }
}

function digest(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

/** `[::1]:8080` → `[::1]`, `localhost:8080` → `localhost`. */
function hostnameOf(host: string): string {
  return host.replace(/:\d*$/, "").toLowerCase();
}

/** Whether the name or address stands for this machine alone. */
export function isLoopback(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" || /^127(?:\.\d{1,3}){3}$/.test(name);
}
