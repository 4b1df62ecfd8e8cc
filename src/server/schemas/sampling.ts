/** The sampling fields of a request, shared by chat completions and completions: names, domains, descriptions. */
import { z } from "zod";
import { boolean, integer, list, number, numbersByName, optional, show, string, tokenIds } from "./fields.ts";

const MIN_SEED = -(2n ** 63n);
const MAX_SEED = 2n ** 64n - 1n;
const SEED_RANGE = "from -2^63 to 2^64-1";

const seed = z.unknown().superRefine((value, context) => {
  // 1e400 is an integer for JSON and Infinity for JavaScript.
  const isInteger = typeof value === "bigint" || (typeof value === "number" && (Number.isInteger(value) || Math.abs(value) === Infinity));
  if (!isInteger) {
    context.addIssue({ code: "custom", message: `must be an integer ${SEED_RANGE}; found ${show(value)}` });
  } else if (value < MIN_SEED || value > MAX_SEED) {
    context.addIssue({
      code: "custom",
      message: `must be an integer ${SEED_RANGE}; found ${value}`,
      params: { isOutOfRange: true },
    });
  }
}).meta({
  type: "integer",
  description: `Any integer ${SEED_RANGE}, kept exact; a negative one stands for its two's complement. -1 or null: a random one.`,
}) as unknown as z.ZodType<number | bigint, number | bigint>;

/** Texts, told with their limits; `others` are limits that are held elsewhere. */
const words = (what: string, maxItems: number, maxLength: number, others = ""): z.ZodType<string[], string[]> =>
  list(
    string("A text").refine((text) => text.length > 0 && text.length <= maxLength, {
      error: (issue) => `must have 1 to ${maxLength} characters; found ${(issue.input as string).length}`,
    }),
    {
      maxItems,
      plural: "strings",
      wanted: "must be a list of strings",
      description: `${what}: at most ${maxItems}, each of 1 to ${maxLength} characters${others}.`,
    },
  );

const BIAS = { min: -100, max: 100 };

const logitBias = numbersByName(
  `Token id, as a decimal number without sign or leading zeros → number from ${BIAS.min} to ${BIAS.max} that is added to its logit.`,
  "must be an object of token ids and numbers",
  BIAS,
);

const UNIT = { min: 0, max: 1 };
const REPETITION = { min: 1e-6, max: 100, also: [0] };
const PENALTY = { min: -2, max: 2 };

/** The shape to spread into a request schema. */
export const SAMPLING_SHAPE = {
  temperature: optional(number("0 is greedy: the most likely token, lowest id first.", { min: 0, max: 100 })),
  top_p: optional(number("Smallest set of tokens whose mass reaches this; 1 is off, 0 keeps the best token.", UNIT)),
  top_k: optional(
    integer("Keeps the k most likely tokens; -1, 0 and the size of the vocabulary or more are off.", { min: -1, max: Infinity }),
  ),
  min_p: optional(number("Drops tokens less likely than this times the best one; 0 is off.", UNIT)),
  seed: optional(seed),
  top_n_sigma: optional(
    number("Drops logits more than n standard deviations below the best; 0 and -1 are off.", { min: 0, max: 1000, also: [-1] }),
  ),
  p_less: optional(boolean("Threshold by the distribution's own collision probability.")),
  typical_p: optional(number("Locally typical sampling; 1 and 0 are off.", UNIT)),
  temperature_last: optional(boolean("The rank filters look at the distribution before temperature.")),
  repetition_penalty: optional(number("Divides or multiplies the logits of tokens seen; 1 and 0 are off.", REPETITION)),
  repeat_penalty: optional(number("Another name of repetition_penalty.", REPETITION)),
  repetition_context_size: optional(
    integer("Tokens that the repetition penalty looks back at; -1 is the whole context, 0 is off.", { min: -1, max: Infinity }),
  ),
  presence_penalty: optional(number("Subtracted once from the logit of every token generated so far.", PENALTY)),
  frequency_penalty: optional(number("Subtracted from a token's logit for every time it was generated.", PENALTY)),
  dry_multiplier: optional(number("Strength of the DRY penalty; 0 is off.", { min: 0, max: 100 })),
  dry_base: optional(number("Growth of the DRY penalty per repeated token; 0 is off.", { min: 1, max: 100, also: [0] })),
  dry_allowed_length: optional(integer("Repetitions up to this length are free.", { min: 0, max: Infinity })),
  dry_penalty_last_n: optional(integer("Tokens that DRY looks back at; -1 is the whole context, 0 is off.", { min: -1, max: Infinity })),
  dry_sequence_breakers: optional(words("Texts that end a repetition", 32, 40)),
  xtc_probability: optional(number("Chance that XTC removes the top choices at a position; 0 is off.", UNIT)),
  xtc_threshold: optional(number("XTC removes all but the least likely of the tokens at least this likely; above 0.5 is off.", UNIT)),
  logit_bias: optional(logitBias),
  min_tokens: optional(integer("End-of-sequence tokens are banned until this many tokens are generated.", { min: 0, max: Infinity })),
  ignore_eos: optional(boolean("Go on after an end-of-sequence token.")),
  bad_words: optional(words("Texts that must not be generated", 256, 256, ", together at most 4096 bytes of UTF-8")),
  allowed_token_ids: optional(tokenIds("Only these tokens may be drawn; at least one.")),
};

export const SamplingRequest = z.object(SAMPLING_SHAPE);
export type SamplingRequest = z.infer<typeof SamplingRequest>;
