/** What the speculation benchmark asks: texts to repeat, which prompt lookup is made for, and stories, which it is not. */
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";

export const SUBJECTS = ["lookup", "story"] as const;
export type Subject = (typeof SUBJECTS)[number];
export const MODES = ["greedy", "shared", "distinct"] as const;
export type Mode = (typeof MODES)[number];

const LOOKUPS = [
  "Repeat this text word for word:\n\nThe mill at Harrow Bridge has two wheels. The larger wheel turns the grain stones, and the smaller wheel lifts the " +
  "sacks to the loft. In dry summers the river is too low for both wheels, and the miller works the stones at night, when the weir is full.",
  "Write this function again, with the variable sum renamed to subtotal:\n\nfunction total(prices, taxRate) {\n  let sum = 0;\n  for (const price of " +
  "prices) {\n    sum += price;\n  }\n  const tax = sum * taxRate;\n  return sum + tax;\n}",
  "Copy this list and keep its order:\n\n- check the oil and the water\n- fill the tank with diesel\n- start the engine and let it run warm\n- test the " +
  "brakes on the yard\n- sign the book at the gate\n- leave by the north road",
];

export const STORIES = [
  "Write a long and detailed story about a lighthouse keeper.",
  "Describe the first ship to Mars and the people on it.",
  "Tell me how a clockmaker in Prague spends a day in winter.",
  "Write a story about two rivers that meet, and the town between them.",
];

/** The user's message of row `index`. */
export function promptOf(subject: Subject, index: number): string {
  const list = subject === "lookup" ? LOOKUPS : STORIES;
  return list[index % list.length] ?? "";
}

/** Every row its own seed; in `distinct` everything else differs from row to row too. */
export function samplingOf(mode: Mode, index: number): SamplingConfig {
  const seed = BigInt(1000 + index);
  if (mode === "greedy") return { ...GREEDY, seed };
  if (mode === "shared") return { ...GREEDY, seed, temperature: 0.7 };
  return {
    ...GREEDY,
    seed,
    temperature: 0.55 + 0.04 * index,
    topP: index % 3 === 0 ? 1 : 0.98 - 0.02 * (index % 4),
    topK: index % 4 === 0 ? 0 : 20 * (1 + index),
    minP: index % 2 === 0 ? 0 : 0.01,
  };
}

/** The user's message as the model's chat template puts it. @throws {Error} when the model has no tokenizer or no template. */
export function promptIds({ tokenizer, chatTemplate }: LoadedModel, content: string): Int32Array {
  if (tokenizer === null || chatTemplate === null) {
    throw new Error("The model has no tokenizer or no chat template, the benchmark needs both");
  }
  const text = chatTemplate.render([{ role: "user", content }], { addGenerationPrompt: true });
  return Int32Array.from(tokenizer.encode(text, { parseSpecial: true }));
}
