/** Rewrites pre-tokenizers where the tokenizer library splits differently from the Rust library that models were trained with. */
import { type TokenizerComponent, TokenizerError } from "./tokenizer_json.ts";

/** How GPT-2 cuts text into words. Written out, because the library's built-in copy uses JavaScript's idea of white space. */
export const GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** A pre-tokenizer that makes every match, and every stretch between matches, a piece. */
export function splitIsolated(regex: string): TokenizerComponent {
  return { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
}

/** The pre-tokenizer for the library, and whether a text gets a leading space when it is the first of its sequence. */
export interface RewrittenPreTokenizer {
  readonly node: TokenizerComponent | null;
  readonly hasStartSpace: boolean;
}

export function rewritePreTokenizer(node: TokenizerComponent | null): RewrittenPreTokenizer {
  if (node === null) return { node, hasStartSpace: false };
  const nodes = flatten(node);
  const hasStartSpace = nodes.some((part) => part.type === "Metaspace" && prependScheme(part) === "first");
  return { node: { type: "Sequence", pretokenizers: nodes.flatMap(rewrite) }, hasStartSpace };
}

function flatten(node: TokenizerComponent): TokenizerComponent[] {
  if (node.type !== "Sequence") return [node];
  const children = node["pretokenizers"];
  if (!Array.isArray(children)) throw new TokenizerError("A pre-tokenizer of type Sequence has no list of pretokenizers");
  return children.flatMap((child) => flatten(child as TokenizerComponent));
}

function rewrite(node: TokenizerComponent): TokenizerComponent[] {
  switch (node.type) {
    case "Digits":
      // The library knows ASCII digits only.
      return [splitIsolated(node["individual_digits"] === true ? "\\p{N}" : "\\p{N}+")];
    case "ByteLevel":
      if (node["use_regex"] === false || node["add_prefix_space"] === true) return [node];
      return [splitIsolated(GPT2_WORDS), { ...node, use_regex: false }];
    case "Metaspace":
      return rewriteMetaspace(node);
    case "Split":
      return [rewriteSplit(node)];
    default:
      return [node];
  }
}

function prependScheme(node: TokenizerComponent): string {
  const scheme = node["prepend_scheme"];
  if (typeof scheme === "string") return scheme.toLowerCase();
  return node["add_prefix_space"] === false ? "never" : "always";
}

function rewriteMetaspace(node: TokenizerComponent): TokenizerComponent[] {
  const scheme = prependScheme(node);
  // Segments are encoded one by one, so the library cannot know which one is the first: the caller adds that space.
  const metaspace = { ...node, prepend_scheme: scheme === "always" ? "always" : "never" };
  if (node["split"] === false) return [metaspace];
  const mark = typeof node["replacement"] === "string" ? node["replacement"] : "\u2581";
  return [metaspace, splitIsolated(`${mark}[^${mark}]*|[^${mark}]+`)];
}

/** The library isolates matches whatever the behaviour says, so the other behaviours become patterns whose isolation does the same. */
function rewriteSplit(node: TokenizerComponent): TokenizerComponent {
  const behavior = String(node["behavior"] ?? "Isolated").toLowerCase();
  if (behavior === "isolated" || behavior === "removed" || node["invert"] === true) return node;
  const { Regex, String: literal } = (node["pattern"] ?? {}) as { Regex?: string; String?: string };
  if (Regex === undefined && literal === undefined) throw new TokenizerError("A pre-tokenizer of type Split has no pattern");
  const match = Regex ?? literal!.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  switch (behavior) {
    case "mergedwithprevious":
      return splitIsolated(`[\\s\\S]*?(?:${match})|[\\s\\S]+`);
    case "mergedwithnext":
      return splitIsolated(`(?:${match})?(?:(?!${match})[\\s\\S])+|(?:${match})`);
    case "contiguous":
      return splitIsolated(`(?:${match})+`);
    default:
      throw new TokenizerError(
        `Unsupported behaviour of a Split pre-tokenizer: ${behavior}; supported are Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous`,
      );
  }
}
