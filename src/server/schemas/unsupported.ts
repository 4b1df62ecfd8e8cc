/** Fields that exist in the protocol, or in that of other servers, and that change the answer in a way that this server cannot. */
import { unsupported } from "../errors.ts";
import { show } from "./fields.ts";

/** Whether a value of the field asks for nothing, so that leaving it out of account is right; and the values that do. */
interface Rule {
  readonly isHarmless: (value: unknown) => boolean;
  readonly allowed: string;
}

const only = (...values: readonly unknown[]): Rule => ({
  isHarmless: (value) => values.includes(value),
  allowed: values.length === 0 ? "null" : `null or ${values.map(show).join(" or ")}`,
});
const NOTHING = only();
const NO_ITEMS: Rule = { isHarmless: (value) => Array.isArray(value) && value.length === 0, allowed: "null or []" };
const TEXT_ONLY: Rule = {
  isHarmless: (value) => Array.isArray(value) && value.length === 1 && value[0] === "text",
  allowed: 'null or ["text"]',
};
const TEXT_FORMAT: Rule = {
  isHarmless: (value) => typeof value === "object" && (value as { type?: unknown }).type === "text",
  allowed: 'null or {"type":"text"}',
};

/** Ways in which other servers are told to constrain or to sample; ignoring them would answer another question. */
const OF_OTHER_SERVERS: Readonly<Record<string, Rule>> = {
  grammar: only(""),
  json_schema: NOTHING,
  guided_json: NOTHING,
  guided_regex: NOTHING,
  guided_choice: NOTHING,
  guided_grammar: NOTHING,
  structured_outputs: NOTHING,
  regex: NOTHING,
  ebnf: NOTHING,
  use_beam_search: only(false),
  length_penalty: only(1),
  prompt_logprobs: NOTHING,
  n_probs: only(0),
  include_stop_str_in_output: only(false),
  skip_special_tokens: only(true),
  smoothing_factor: only(0),
  mirostat: only(0),
  mirostat_mode: only(0),
  dynatemp_range: only(0),
  tfs_z: only(1),
  top_a: only(0),
  logits_processors: NO_ITEMS,
  adapters: NOTHING,
  draft_model: NOTHING,
};

const SHARED: Readonly<Record<string, Rule>> = { ...OF_OTHER_SERVERS, response_format: TEXT_FORMAT };

export const UNSUPPORTED_IN_CHAT: Readonly<Record<string, Rule>> = {
  ...SHARED,
  tools: NO_ITEMS,
  tool_choice: only("none"),
  functions: NO_ITEMS,
  function_call: only("none"),
  audio: NOTHING,
  modalities: TEXT_ONLY,
  prediction: NOTHING,
  reasoning_effort: only("none"),
  verbosity: NOTHING,
  web_search_options: NOTHING,
  store: only(false),
  service_tier: only("auto", "default"),
  best_of: only(1),
  echo: only(false),
  suffix: only(""),
  chat_template: NOTHING,
  add_generation_prompt: only(true),
  continue_final_message: only(false),
};

export const UNSUPPORTED_IN_COMPLETIONS: Readonly<Record<string, Rule>> = { ...SHARED, best_of: only(1), suffix: only("") };

/** @throws {ApiError} 400 `unsupported_parameter` with the field's name. */
export function refuseUnsupported(body: Readonly<Record<string, unknown>>, rules: Readonly<Record<string, Rule>>): void {
  for (const [name, { isHarmless, allowed }] of Object.entries(rules)) {
    const value = Object.hasOwn(body, name) ? body[name] : null;
    if (value === null || isHarmless(value)) continue;
    throw unsupported(name, `is not supported, so it must be ${allowed}; found ${show(value)}`);
  }
}
