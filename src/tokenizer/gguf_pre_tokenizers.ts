/** How the byte-level vocabularies that GGUF files name in `tokenizer.ggml.pre` cut text into words. */
import { GPT2_WORDS } from "./pre_tokenizer.ts";
import { TokenizerError } from "./tokenizer_json.ts";

export interface GgufPreTokenizer {
  /** Applied one after the other; matches and what lies between them are pieces. */
  readonly patterns: readonly string[];
  /** A word that is in the vocabulary is one token, whatever the merges say. */
  readonly ignoresMerges: boolean;
  /** What happens when the file does not say whether a BOS is added. */
  readonly addsBos: boolean;
  /** Text is brought to Unicode's composed form first. */
  readonly normalizesNfc: boolean;
}

const DIGIT = "\\p{N}";
const SPACES = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const CJK = "[一-龥ࠀ-一가-퟿]+";

function llamaWords(digits: string): string {
  return `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${SPACES}`;
}

/** Words that end where a capital follows a small letter; `suffix` is what may follow a word, `digits` one number. */
function casedWords(suffix: string, digits: string): string {
  const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
  const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  const before = "[^\\r\\n\\p{L}\\p{N}]?";
  const words = `${before}${upper}*${lower}+${suffix}|${before}${upper}+${lower}*${suffix}`;
  return `${words}|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`;
}

const QWEN35_WORDS = `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|${DIGIT}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${SPACES}`;

const DEEPSEEK3_WORDS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" +
  `| ?[\\p{P}\\p{S}]+[\\r\\n]*|${SPACES}`;

const FAMILIES: readonly (readonly [names: string, patterns: readonly string[], options?: Partial<GgufPreTokenizer>])[] = [
  ["default", ["[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"]],
  ["gpt-2 phi-2 mpt olmo jais trillion granite-docling", [GPT2_WORDS]],
  ["smollm starcoder refact command-r codeshell exaone minerva-7b", [DIGIT, GPT2_WORDS]],
  ["llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral", [llamaWords("\\p{N}{1,3}")], { ignoresMerges: true, addsBos: true }],
  ["qwen2", [llamaWords(DIGIT)], { normalizesNfc: true }],
  ["deepseek-r1-qwen stablelm2 megrez", [llamaWords(DIGIT)]],
  ["qwen35", [QWEN35_WORDS], { normalizesNfc: true }],
  ["deepseek-coder", ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, DIGIT]],
  ["deepseek-v3", ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3_WORDS]],
  ["falcon", ["[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2_WORDS, "[0-9][0-9][0-9]"]],
  ["tekken", [casedWords("", DIGIT)], { ignoresMerges: true, addsBos: true }],
  ["gpt-4o llama4", [casedWords(`${CONTRACTION}?`, "\\p{N}{1,3}")]],
];

const BY_NAME: ReadonlyMap<string, GgufPreTokenizer> = new Map(
  FAMILIES.flatMap(([names, patterns, options]) => {
    const family: GgufPreTokenizer = { patterns, ignoresMerges: false, addsBos: false, normalizesNfc: false, ...options };
    return names.split(" ").map((name) => [name, family] as const);
  }),
);

/** @throws {TokenizerError} for names that are not known: a guess would give wrong ids without anyone noticing. */
export function ggufPreTokenizer(name: string): GgufPreTokenizer {
  const family = BY_NAME.get(name);
  if (family !== undefined) return family;
  throw new TokenizerError(`Unsupported tokenizer.ggml.pre: ${name}; supported are ${[...BY_NAME.keys()].sort().join(", ")}`);
}
