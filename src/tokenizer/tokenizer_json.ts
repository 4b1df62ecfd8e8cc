/** The parts of a Hugging Face tokenizer.json that Rowlock reads itself; everything else goes to the tokenizer library as it is. */
import { z } from "zod";

/** Ids above this are taken for damage: they would only make tables large. */
const MAX_VOCABULARY = 1 << 24;

const addedToken = z.looseObject({
  id: z.int().nonnegative().max(MAX_VOCABULARY),
  content: z.string().min(1),
  lstrip: z.boolean().optional(),
  rstrip: z.boolean().optional(),
  normalized: z.boolean().optional(),
  special: z.boolean().optional(),
});

const component = z.looseObject({ type: z.string() });

/** Checked by hand: vocabularies have up to 300,000 entries, one of which may be called `__proto__`, which zod's records leave out. */
function isVocabulary(value: unknown): value is Record<string, number> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((id) => Number.isSafeInteger(id) && id >= 0 && id < MAX_VOCABULARY);
}

function isMerges(value: unknown): value is string[] | [string, string][] {
  if (!Array.isArray(value)) return false;
  const isPair = Array.isArray(value[0]);
  return value.every((merge) => isPair ? isStringPair(merge) : typeof merge === "string" && merge.includes(" "));
}

function isStringPair(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && typeof value[0] === "string" && typeof value[1] === "string";
}

function isPieces(value: unknown): value is [piece: string, score: number][] {
  return Array.isArray(value) && value.length > 0 &&
    value.every((pair) => Array.isArray(pair) && typeof pair[0] === "string" && Number.isFinite(pair[1]));
}

const bpeModel = z.looseObject({
  type: z.literal("BPE").optional(),
  vocab: z.custom<Record<string, number>>(isVocabulary, "The vocabulary of a BPE model must map tokens to ids"),
  merges: z.custom<string[] | [string, string][]>(isMerges, "The merges of a BPE model must be pairs of tokens"),
  unk_token: z.string().nullish(),
  byte_fallback: z.boolean().nullish(),
});

const unigramModel = z.looseObject({
  type: z.literal("Unigram"),
  vocab: z.custom<[piece: string, score: number][]>(isPieces, "The vocabulary of a Unigram model must be pairs of piece and score"),
  unk_id: z.int().nonnegative().nullish(),
  byte_fallback: z.boolean().nullish(),
});

const model = z.looseObject({ type: z.string().optional() }).transform((value, context) => {
  const schema = value.type === "Unigram" ? unigramModel : value.type === "BPE" || value.type === undefined ? bpeModel : null;
  const result = schema?.safeParse(value);
  if (result?.success) return result.data;
  const reason = result?.error.issues[0]?.message ?? `Unsupported tokenizer model: ${value.type}; supported are BPE and Unigram`;
  context.addIssue({ code: "custom", message: reason });
  return z.NEVER;
});

export const tokenizerJsonSchema = z.looseObject({
  added_tokens: z.array(addedToken).nullish().transform((tokens) => tokens ?? []),
  normalizer: component.nullish().transform((node) => node ?? null),
  pre_tokenizer: component.nullish().transform((node) => node ?? null),
  post_processor: component.nullish().transform((node) => node ?? null),
  decoder: component.nullish().transform((node) => node ?? null),
  model,
});

const namedToken = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish()
  .transform((token) => typeof token === "object" ? token?.content ?? null : token ?? null);

/** tokenizer_config.json; unknown keys are ignored. */
export const tokenizerConfigSchema = z.looseObject({
  bos_token: namedToken,
  eos_token: namedToken,
  unk_token: namedToken,
  pad_token: namedToken,
  add_bos_token: z.boolean().nullish(),
  add_eos_token: z.boolean().nullish(),
  additional_special_tokens: z.array(namedToken).nullish().transform((tokens) => tokens ?? []),
  added_tokens_decoder: z.record(z.string(), z.looseObject({ content: z.string(), special: z.boolean().optional() })).nullish(),
});

export type TokenizerJson = z.infer<typeof tokenizerJsonSchema>;
export type TokenizerConfig = z.infer<typeof tokenizerConfigSchema>;
export type TokenizerComponent = z.infer<typeof component>;

/** A vocabulary that Rowlock cannot read or cannot reproduce exactly. */
export class TokenizerError extends Error {
  override name = "TokenizerError";
}
