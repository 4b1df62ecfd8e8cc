/** What the benchmark asks: short prompts with long answers, sampled in three ways. */

export const MODES = ["greedy", "shared", "distinct"] as const;
export type Mode = (typeof MODES)[number];

const TOPICS = [
  "a lighthouse keeper",
  "the first ship to Mars",
  "a clockmaker in Prague",
  "two rivers that meet",
  "a lost violin",
  "the night train north",
  "a garden under glass",
  "an honest thief",
];

/** The body of row `index`: of `maxTokens` tokens, none fewer where the server knows `ignore_eos`. */
export function requestBody(mode: Mode, index: number, maxTokens: number): Record<string, unknown> {
  const topic = TOPICS[index % TOPICS.length];
  const content = `Write a long and detailed story about ${topic}, chapter ${1 + index}. Describe every person and place.`;
  return { messages: [{ role: "user", content }], max_tokens: maxTokens, ignore_eos: true, ...samplingOf(mode, index) };
}

function samplingOf(mode: Mode, index: number): Record<string, unknown> {
  if (mode === "greedy") return { temperature: 0 };
  if (mode === "shared") return { temperature: 0.8, top_k: 40, top_p: 0.95 };
  // Every row another one, with each filter on in some rows and off in others.
  return {
    temperature: 0.5 + 0.06 * index,
    top_p: index % 3 === 0 ? 1 : 0.99 - 0.02 * (index % 5),
    top_k: index % 4 === 0 ? 0 : 10 * (1 + index),
    min_p: index % 2 === 0 ? 0 : 0.02 + 0.005 * index,
    seed: 1000 + index,
  };
}
