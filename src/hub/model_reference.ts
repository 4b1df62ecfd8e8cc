/** The ways to name a model: a folder, a `.gguf` file, or `org/name[@revision][:file-pattern]` on the hub. */

export interface HubReference {
  readonly type: "hub";
  /** `org/name` */
  readonly repository: string;
  /** Branch, tag or commit. */
  readonly revision: string;
  /** Chooses one GGUF file; null for a repository that leaves no choice. */
  readonly filePattern: string | null;
}

export interface PathReference {
  readonly type: "path";
  readonly path: string;
}

export type ModelReference = HubReference | PathReference;

export const DEFAULT_REVISION = "main";

const REFERENCE = /^([^/@:\\]+\/[^/@:\\]+)(?:@([^@:\\]+))?(?::([^:\\]+))?$/;
const NAME_PART = /^[A-Za-z0-9_][\w.-]{0,95}$/;

/** What exists on this machine is a path; what only the hub can have is looked for there; anything else is a path that does not exist. */
export function parseModelReference(text: string): ModelReference {
  if (exists(text)) return { type: "path", path: text };
  const [, repository, revision = DEFAULT_REVISION, filePattern = null] = REFERENCE.exec(text) ?? [];
  // `models/tiny.gguf` is a path that was typed wrong much more often than a repository's name.
  const looksLikeFile = filePattern === null && text.endsWith(".gguf");
  if (repository === undefined || looksLikeFile || !isRepositoryName(repository) || !isRevision(revision)) {
    return { type: "path", path: text };
  }
  return { type: "hub", repository, revision, filePattern };
}

/** As the user would write it; also the model's id. */
export function formatReference({ repository, revision, filePattern }: HubReference): string {
  return `${repository}${revision === DEFAULT_REVISION ? "" : `@${revision}`}${filePattern === null ? "" : `:${filePattern}`}`;
}

/** The hub's own rule. Nothing that passes can lead out of a folder. */
export function isRepositoryName(text: string): boolean {
  const parts = text.split("/");
  return parts.length === 2 && parts.every((part) => NAME_PART.test(part) && !/[.-]$|--|\.\./.test(part)) && !text.endsWith(".git");
}

/** Names of branches and tags may have slashes; `..` and what begins with a dot or a slash is none. */
export function isRevision(text: string): boolean {
  return text.length <= 200 && text.split("/").every((part) => /^\w[\w.+-]*$/.test(part) && !part.includes(".."));
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
