/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Every variable that Rowlock reads. The compiled program may read these and no others, so a new one has to be here. */
export const VARIABLES = [
  "ROWLOCK_CACHE",
  "ROWLOCK_LIBRARY",
  "ROWLOCK_SUPERVISED",
  "ROWLOCK_THREADS",
  "ROWLOCK_CPU_KERNELS",
  "ROWLOCK_CPU_ISA",
  "OPENBLAS_CORETYPE",
  "HOME",
  "USERPROFILE",
  "XDG_CACHE_HOME",
  "HF_ENDPOINT",
  "HF_HOME",
  "HF_HUB_CACHE",
  "HF_HUB_OFFLINE",
  "HF_TOKEN",
  "HF_TOKEN_PATH",
  "HUGGINGFACE_HUB_CACHE",
  "HUGGING_FACE_HUB_TOKEN",
  "TRANSFORMERS_OFFLINE",
  "NO_COLOR",
  "TERM",
] as const;

/** The variables above that are set. */
export function readEnvironment(): Environment {
  return Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));
}
