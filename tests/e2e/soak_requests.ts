/** Random requests and random ways to leave them, for the soak. */
import type { Json, RealServer } from "./real_server.ts";

/** What has to be true of an answer. Everything else is a failure of the soak. */
export type Outcome = "answered" | "refused" | "left";

/** Uniform numbers from 0 to 1 that a seed determines (Mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

const PROMPTS = [
  "Hi",
  "Name three rivers.",
  "Tell me a story about a lighthouse and its keeper.",
  "1, 2, 3,",
  "🎉 Grüße",
  "Write code. ".repeat(20),
];
/** Settings, each of which a request has with an even chance. */
const SETTINGS: readonly Json[] = [
  { temperature: 0 },
  { temperature: 1.4, top_k: 30 },
  { top_p: 0.9, seed: 12 },
  { min_p: 0.1 },
  { top_n_sigma: 1 },
  { p_less: true },
  { typical_p: 0.8 },
  { xtc_probability: 0.5 },
  { repetition_penalty: 1.2 },
  { presence_penalty: 1, frequency_penalty: 0.5 },
  { dry_multiplier: 0.8 },
  { logit_bias: { "30": -5, "100": 3 } },
  { bad_words: ["the"] },
  { stop: ["\n", "a b", "zzz"] },
  { min_tokens: 2 },
  { ignore_eos: true },
  { temperature_last: true },
  { return_token_ids: true },
];
const WRONG: readonly Json[] = [{ temperature: -1 }, { top_p: 2 }, { n: 0 }, { stop: [1] }, { model: "absent" }, {
  logit_bias: { "999999": 1 },
}];

export class SoakRequests {
  readonly #server: RealServer;
  readonly #random: () => number;

  constructor(server: RealServer, seed: number) {
    this.#server = server;
    this.#random = randomNumbers(seed);
  }

  /** Sends a random request. @throws {Error} that has the request, when the answer is not what it has to be. */
  async send(): Promise<Outcome> {
    const isChat = this.#chance(0.7);
    const isStream = this.#chance(0.6);
    const isWrong = this.#chance(0.08);
    const leaveAfter = this.#chance(0.3) ? Math.floor(this.#random() * 400) : null;
    const body = { ...this.#body(isChat), ...(isStream ? { stream: true } : {}), ...(isWrong ? this.#pick(WRONG) : {}) };
    const abort = new AbortController();
    const timer = leaveAfter === null ? undefined : setTimeout(() => abort.abort(), leaveAfter);
    try {
      const response = await this.#server.post(isChat ? "/v1/chat/completions" : "/v1/completions", body, abort.signal);
      const text = await response.text();
      return judge(body, isWrong, response.status, text);
    } catch (error) {
      if (abort.signal.aborted) return "left";
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #body(isChat: boolean): Json {
    const chosen = SETTINGS.filter(() => this.#chance(0.2));
    const maxTokens = 2 + Math.floor(this.#random() * 16);
    const shared = { ...Object.assign({}, ...chosen), max_tokens: maxTokens, n: this.#chance(0.15) ? 2 : 1 };
    if (isChat) {
      const logprobs = this.#chance(0.2) ? { logprobs: true, top_logprobs: 2 } : {};
      return { messages: [{ role: "user", content: this.#pick(PROMPTS) }], ...shared, ...logprobs };
    }
    const ids = Array.from({ length: 1 + Math.floor(this.#random() * 300) }, () => Math.floor(this.#random() * 49_152));
    const prompt = this.#chance(0.5) ? ids : [this.#pick(PROMPTS), this.#pick(PROMPTS)];
    return { prompt, ...shared, ...(this.#chance(0.2) ? { echo: true, logprobs: 1 } : {}) };
  }

  #chance(share: number): boolean {
    return this.#random() < share;
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)]!;
  }
}

function judge(body: Json, isWrong: boolean, status: number, text: string): Outcome {
  const shown = `${status} for ${JSON.stringify(body)}: ${text.slice(-400)}`;
  if (isWrong) {
    if (status >= 400 && status < 500 && JSON.parse(text).error.param !== null) return "refused";
    throw new Error(`A wrong request was not refused: ${shown}`);
  }
  if (status !== 200) throw new Error(`A right request was refused: ${shown}`);
  const choices = body.stream ? streamedChoices(text) : new Map(JSON.parse(text).choices.map((choice: Json) => [choice.index, choice]));
  const numWanted = (body.n ?? 1) * (Array.isArray(body.prompt) && typeof body.prompt[0] === "string" ? body.prompt.length : 1);
  const isWhole = choices.size === numWanted && [...choices.values()].every((choice: Json) => choice.finish_reason !== null);
  if (!isWhole) throw new Error(`An answer is not whole: ${shown}`);
  return "answered";
}

/** The last chunk of each choice. */
function streamedChoices(text: string): Map<number, Json> {
  if (!text.endsWith("data: [DONE]\n\n")) throw new Error(`A stream has no end: ${text.slice(-200)}`);
  const last = new Map<number, Json>();
  for (const event of text.split("\n\n")) {
    if (!event.startsWith("data: {")) continue;
    const chunk = JSON.parse(event.slice("data: ".length));
    if (chunk.error !== undefined) throw new Error(`A stream has an error: ${event}`);
    for (const choice of chunk.choices) last.set(choice.index, choice);
  }
  return last;
}
