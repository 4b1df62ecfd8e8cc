import { ENGINE_MUTANTS } from "./engine_mutants.ts";
import { KERNEL_MUTANTS } from "./kernel_mutants.ts";
import type { Mutant } from "./mutant.ts";
import { PREFIX_MUTANTS } from "./prefix_mutants.ts";
import { SAMPLER_MUTANTS } from "./sampler_mutants.ts";
import { SPECULATION_MUTANTS } from "./speculation_mutants.ts";
import { STEP_MUTANTS } from "./step_mutants.ts";

/** Every fault that the tests have to notice. */
export const ALL_MUTANTS: readonly Mutant[] = [
  ...ENGINE_MUTANTS,
  ...PREFIX_MUTANTS,
  ...SPECULATION_MUTANTS,
  ...SAMPLER_MUTANTS,
  ...KERNEL_MUTANTS,
  ...STEP_MUTANTS,
];
