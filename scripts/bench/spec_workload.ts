/** What the speculation benchmark asks: texts to repeat, which prompt lookup is made for, and stories, which it is not. */
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";

export const SUBJECTS = ["lookup", "story"] as const;
export type Subject = (typeof SUBJECTS)[number];
export const MODES = ["greedy", "shared", "distinct"] as const;
export type Mode = (typeof MODES)[number];

/** Longer than the answers that are measured: what a model writes after the end of its answer is of no interest. */
const LOOKUPS = [
  "Repeat this text word for word:\n\nThe mill at Harrow Bridge has two wheels. The larger wheel turns the grain stones, and the smaller wheel lifts the " +
  "sacks to the loft. In dry summers the river is too low for both wheels, and the miller works the stones at night, when the weir is full. His daughter " +
  "keeps the books in the small room above the door. She writes down who brought the grain, how many sacks there were, and what was paid for the work. " +
  "On market days farmers come from both sides of the valley, and the yard is full of carts before the sun is up. The baker from the village takes the " +
  "first flour of the day, and the rest is stored in the loft until it is sold. In winter the ice has to be broken around the wheels every morning, and " +
  "the miller does this with a long iron bar that his father made. When the snow melts, the river rises to the second step of the house.",
  "Write these functions again, with the variable sum renamed to subtotal:\n\nfunction total(prices, taxRate) {\n  let sum = 0;\n  for (const price of " +
  "prices) {\n    sum += price;\n  }\n  const tax = sum * taxRate;\n  return sum + tax;\n}\n\nfunction average(prices) {\n  let sum = 0;\n  for (const price " +
  "of prices) {\n    sum += price;\n  }\n  return prices.length > 0 ? sum / prices.length : 0;\n}\n\nfunction discounted(prices, percent) {\n  const result = " +
  "[];\n  for (const price of prices) {\n    result.push(price - price * percent / 100);\n  }\n  return result;\n}",
  "Copy this list and keep its order:\n\n- check the oil and the water\n- fill the tank with diesel\n- start the engine and let it run warm\n- test the " +
  "brakes on the yard\n- sign the book at the gate\n- leave by the north road\n- stop at the bridge and look at the load\n- wait for the train at the " +
  "crossing\n- turn left at the red barn\n- deliver the first pallet to the school\n- ask for a receipt with a stamp\n- deliver the second pallet to the " +
  "farm shop\n- take the empty crates back\n- wash the truck behind the hall\n- park it with the doors to the wall\n- bring the keys to the office\n- write " +
  "down the distance and the time",
];

export const STORIES = [
  "Write a long and detailed story about a lighthouse keeper.",
  "Describe the first ship to Mars and the people on it.",
  "Tell me how a clockmaker in Prague spends a day in winter.",
  "Write a story about two rivers that meet, and the town between them.",
];

/** Texts of a subject: those of row 0, row 1 and so on, and again from the first one. */
export function numPrompts(subject: Subject): number {
  return subject === "lookup" ? LOOKUPS.length : STORIES.length;
}

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
