/** What configs say about rotary positions; what comes of it is tested with golden checkpoints. */
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { z } from "zod";
import type { FlatConfig } from "../../src/models/architecture.ts";
import { parseConfig, transformerShape } from "../../src/models/config_parts.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { ropeConfig, type RopeOptions } from "../../src/models/rope_config.ts";

const SIZES = {
  vocab_size: 100,
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  max_position_embeddings: 4096,
};

function rope(config: Record<string, unknown>, options?: RopeOptions): FlatConfig {
  return ropeConfig(parseConfig(z.looseObject(transformerShape), { ...SIZES, ...config }), options);
}

function refuse(config: Record<string, unknown>, message: string, options?: RopeOptions): void {
  assertThrows(() => rope(config, options), ModelFileError, message);
}

const FACTORS = { short_factor: [1, 1.5, 2, 3], long_factor: [2, 4, 8, 16] };

Deno.test("YaRN stretches the context by its factor, and its attention factor follows from it", () => {
  const flat = rope({ rope_scaling: { type: "yarn", factor: 4, original_max_position_embeddings: 2048 } });
  assertEquals([flat["rope_type"], flat["rope_factor"], flat["max_position_embeddings"]], ["yarn", 4, 8192]);
  assertEquals([flat["rope_beta_fast"], flat["rope_beta_slow"], flat["rope_truncate"]], [32, 1, true]);
  assertAlmostEquals(Number(flat["rope_attention_factor"]), 0.1 * Math.log(4) + 1, 1e-12);
  const given = rope({ rope_scaling: { type: "yarn", factor: 4, attention_factor: 0.75, beta_fast: 16, truncate: false } });
  assertEquals([given["rope_attention_factor"], given["rope_beta_fast"], given["rope_truncate"]], [0.75, 16, false]);
  assertEquals(given["max_position_embeddings"], 4 * 4096);
  const split = rope({ rope_scaling: { type: "yarn", factor: 40, mscale: 0.707, mscale_all_dim: 1 } });
  assertAlmostEquals(Number(split["rope_attention_factor"]), (0.0707 * Math.log(40) + 1) / (0.1 * Math.log(40) + 1), 1e-12);
  // A context that is larger already stays.
  assertEquals(rope({ rope_scaling: { type: "yarn", factor: 2, original_max_position_embeddings: 64 } })["max_position_embeddings"], 4096);
});

Deno.test("LongRoPE has two lists of factors, and its attention factor comes from the two contexts", () => {
  for (const type of ["longrope", "su", "yarn"]) {
    const flat = rope({ original_max_position_embeddings: 1024, rope_scaling: { type, ...FACTORS } });
    assertEquals([flat["rope_type"], flat["rope_short_factors"], flat["rope_long_factors"]], ["longrope", "1,1.5,2,3", "2,4,8,16"]);
    assertEquals(flat["rope_original_max_position_embeddings"], 1024);
    assertAlmostEquals(Number(flat["rope_attention_factor"]), Math.sqrt(1 + Math.log(4) / Math.log(1024)), 1e-12);
  }
  assertEquals(rope({ rope_scaling: { type: "longrope", ...FACTORS } })["rope_attention_factor"], 1);
  const wrong = { type: "longrope", ...FACTORS, long_factor: [1, 2] };
  refuse({ rope_scaling: wrong }, "rope_scaling.long_factor is [1,2]: longrope needs a list of 4 numbers");
  refuse({ rope_parameters: { rope_type: "longrope" } }, "rope_parameters.short_factor is missing");
  const inTensors = rope({ rope_scaling: { type: "longrope", attention_factor: 1.25, has_factor_tensors: true } });
  assertEquals([inTensors["rope_attention_factor"], inTensors["rope_short_factors"]], [1.25, undefined]);
});

Deno.test("A dynamic scaling starts at the context that the config names", () => {
  const flat = rope({ original_max_position_embeddings: 64, rope_scaling: { type: "dynamic", factor: 2.5 } });
  assertEquals([flat["rope_original_max_position_embeddings"], flat["max_position_embeddings"]], [4096, 10_240]);
});

Deno.test("A part of each head turns where the architecture allows it", () => {
  const options = { rotaryFactor: 0.25 };
  assertEquals([rope({}, options)["rotary_dims"], rope({})["rotary_dims"]], [2, undefined]);
  assertEquals(rope({ partial_rotary_factor: 0.5 }, options)["rotary_dims"], 4);
  assertEquals(rope({ rope_parameters: { partial_rotary_factor: 0.75 }, partial_rotary_factor: 0.5 }, options)["rotary_dims"], 6);
  // 20 of 48 features as GGUF files tell it: the quotient times 48 is a little less than 20.
  assertEquals(rope({ hidden_size: 192, partial_rotary_factor: 20 / 48 - 1e-12 }, options)["rotary_dims"], 20);
  refuse({ partial_rotary_factor: 0.5 }, "partial_rotary_factor is 0.5: only 1 is supported");
  for (const factor of [0, 1.5, 0.4, -1]) {
    refuse({ partial_rotary_factor: factor }, `partial_rotary_factor is ${factor}: it has to leave an even number`, options);
  }
});
