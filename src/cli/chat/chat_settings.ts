/** What `/set` may change: the fields of a request that shape an answer. */
import type { LoadedModel } from "../../models/loaded_model.ts";
import { didYouMean } from "../did_you_mean.ts";
import { ChatCompletionRequest } from "../../server/schemas/chat_completions.ts";
import { SAMPLING_SHAPE } from "../../server/schemas/sampling.ts";

/** A setting cannot be made; the message says why. */
export class SettingError extends Error {
  override name = "SettingError";
}

export const SETTING_NAMES: readonly string[] = [...Object.keys(SAMPLING_SHAPE), "max_tokens", "stop"];

/** What a conversation begins with where the model names nothing: the protocol's temperature, 1, is too hot for small models. */
const CALM: Readonly<Record<string, number>> = { temperature: 0.3, top_p: 0.9 };

/** Small models repeat themselves without end where nothing holds them back. */
const NO_LOOPS: Readonly<Record<string, number>> = { repetition_penalty: 1.1 };

/** Both names of one setting in a request would be a contradiction. */
const ALIASES: Readonly<Record<string, string>> = { repeat_penalty: "repetition_penalty" };

/** The settings that a conversation begins with. @param own the model's sampling defaults, as its generation config names them. */
export function firstSettings(own: LoadedModel["generationDefaults"]): Readonly<Record<string, number>> {
  const names = ["temperature", "top_p", "top_k", "min_p", "do_sample"];
  const calm = names.some((name) => Object.hasOwn(own, name)) ? {} : CALM;
  return Object.hasOwn(own, "repetition_penalty") ? calm : { ...calm, ...NO_LOOPS };
}

export class ChatSettings {
  readonly #values: Map<string, unknown>;

  /** @param first what is set at the beginning, as if by `/set`. */
  constructor(first: Readonly<Record<string, unknown>> = {}) {
    this.#values = new Map(Object.entries(first));
  }

  /** The fields to send. */
  get fields(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(this.#values);
  }

  /** @param text JSON, or a text that is none: both `0.7` and `["a", "b"]` and `END` are meant as they look. @throws {SettingError} */
  set(name: string, text: string): void {
    const value = parseValue(text);
    const fault = faultOf(name, value);
    if (fault !== null) throw new SettingError(`${name} ${fault}`);
    this.#values.set(ALIASES[name] ?? name, value);
  }

  /** Back to the model's own. @throws {SettingError} */
  unset(name: string): void {
    this.#values.delete(ALIASES[checkName(name)] ?? name);
  }
}

/** `/set top_p VALUE, where VALUE must be a number from 0 to 1`. @throws {SettingError} when there is no such setting. */
export function wantedValue(name: string): string {
  // No setting takes NaN, and what is said of it begins with what is allowed.
  return `/set ${name} VALUE, where VALUE ${faultOf(name, NaN)?.replace(/; found NaN$/, "")}`;
}

/** What is wrong with the value; null when nothing is. */
function faultOf(name: string, value: unknown): string | null {
  const schema = ChatCompletionRequest.shape[checkName(name) as keyof typeof ChatCompletionRequest.shape];
  return schema.safeParse(value).error?.issues[0]?.message ?? null;
}

function checkName(name: string): string {
  if (SETTING_NAMES.includes(name)) return name;
  throw new SettingError(`There is no setting "${name}"${didYouMean(name, SETTING_NAMES) || `; there are ${SETTING_NAMES.join(", ")}`}`);
}

function parseValue(text: string): unknown {
  // A number that a float cannot hold would become another seed.
  if (/^-?\d{16,}$/.test(text)) return BigInt(text);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
