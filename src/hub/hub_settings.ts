/** Where the hub is and where its files are kept, by the variables that Python's huggingface_hub reads. */
import { join, resolve } from "node:path";
import { type Environment, readEnvironment } from "./environment.ts";
import { HubError } from "./hub_error.ts";

export interface HubSettings {
  /** Without a slash at its end. */
  readonly endpoint: string;
  /** null: nothing is sent. */
  readonly token: string | null;
  /** Folder with one folder for each repository. */
  readonly cache: string;
  /** Only what is in the cache may be used. */
  readonly isOffline: boolean;
}

const DEFAULT_ENDPOINT = "https://huggingface.co";

/**
 * Reads HF_ENDPOINT, HF_TOKEN (else the file HF_TOKEN_PATH, where a login has left it), HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE.
 * @throws {HubError} when the endpoint is no address, or no home is known.
 */
export function hubSettings(environment: Environment = readEnvironment()): HubSettings {
  const home = hubHome(environment);
  return {
    endpoint: checkEndpoint(environment["HF_ENDPOINT"] || DEFAULT_ENDPOINT),
    token: readToken(environment, home),
    cache: resolve(environment["HF_HUB_CACHE"] || environment["HUGGINGFACE_HUB_CACHE"] || join(home, "hub")),
    isOffline: isTrue(environment["HF_HUB_OFFLINE"]) || isTrue(environment["TRANSFORMERS_OFFLINE"]),
  };
}

function hubHome({ HF_HOME: own, XDG_CACHE_HOME: xdg, HOME: home, USERPROFILE: profile }: Environment): string {
  if (own) return resolve(own.replace(/^~(?=\/|$)/, home ?? "~"));
  if (xdg) return resolve(xdg, "huggingface");
  const base = home || profile;
  if (base) return resolve(base, ".cache", "huggingface");
  throw new HubError("No folder for models: none of HF_HOME, XDG_CACHE_HOME and HOME is set");
}

function checkEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    throw new HubError(`HF_ENDPOINT is "${text}", expected an address that begins with https:// or http://`);
  }
  return url.href.replace(/\/+$/, "");
}

function readToken(environment: Environment, home: string): string | null {
  const named = environment["HF_TOKEN"]?.trim() || environment["HUGGING_FACE_HUB_TOKEN"]?.trim();
  const token = named || readTokenFile(environment["HF_TOKEN_PATH"] || join(home, "token"));
  // The token stays out of the message: it ends up in logs.
  if (token !== null && !/^[\x21-\x7e]+$/.test(token)) throw new HubError("HF_TOKEN has a character that no HTTP header can carry");
  return token;
}

function readTokenFile(path: string): string | null {
  try {
    return Deno.readTextFileSync(path).trim() || null;
  } catch {
    // Without a token, everything that is public still works.
    return null;
  }
}

function isTrue(value: string | undefined): boolean {
  return ["1", "on", "yes", "true"].includes(value?.toLowerCase() ?? "");
}
