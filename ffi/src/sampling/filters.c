#include "filters.h"

#include <float.h>

#include "random_stream.h"

float inverse_of(float temperature) {
  float inverse = 1.0f / temperature;
  return inverse > FLT_MIN ? inverse : FLT_MIN;
}

/* Logit of the token whose probability is `ratio` (0 … 1) times the best one's. */
static float floor_of(const survivors* tokens, double ratio, float inverse_temperature) {
  if (ratio >= 1) return tokens->best;
  float floor = round_up((double)tokens->best + log(ratio) / (double)inverse_temperature);
  return floor < tokens->best ? floor : tokens->best;
}

static void filter_top_n_sigma(survivors* tokens, float n) {
  keep_from(tokens, round_up((double)tokens->best - (double)n * deviation_of(tokens)));
}

/* Keeps q >= sum of q^2, where q = e / mass: e >= sum of e^2 / mass. */
static void filter_p_less(survivors* tokens, float inverse_temperature) {
  mass_sums sums = mass_sums_of(tokens, inverse_temperature);
  keep_from(tokens, floor_of(tokens, sums.mass_squared / sums.mass, inverse_temperature));
}

/* How far below the best logit (in units of temperature) a tail must begin to weigh at most `share` of the mass: the tail has at most
 * `count` tokens of at most exp(-depth) each. What lies deeper cannot be needed to reach the other 1 - share, so a selection need not
 * look at it. The addend covers rounding. */
static double tail_depth(const survivors* tokens, double share, double mass) {
  return log((double)tokens->count / (share * mass)) + 0.001;
}

/* Turns a whole row into the list of tokens down to `depth`; a list is left as it is. */
static void list_down_to(survivors* tokens, double depth, float inverse_temperature) {
  if (tokens->ids == NULL) keep_from(tokens, round_up((double)tokens->best - depth / (double)inverse_temperature));
}

/* Orders by |-ln p - entropy| = |logit - centre|, where centre is the mean of the logits under p. */
static void filter_typical_p(survivors* tokens, float typical_p) {
  mass_sums sums = mass_sums_of(tokens, 1.0f);
  double mean_difference = sums.mass_log / sums.mass;
  double centre = (double)tokens->best + mean_difference;
  /* The list must be a prefix of this order too: as deep below the centre as the best token is above it. */
  double depth = fmax(tail_depth(tokens, 1.0 - (double)typical_p, sums.mass), -2.0 * mean_difference + 0.001);
  list_down_to(tokens, depth, 1.0f);
  sampler_scratch* scratch = tokens->scratch;
  mass_of(tokens, 1.0f, scratch->weights);
  for (int32_t i = 0; i < tokens->count; i++) scratch->keys[i] = (float)fabs((double)tokens->logits[i] - centre);
  double target = (double)typical_p * sums.mass;
  keep_prefix(tokens, scratch->keys, select_prefix(scratch->keys, scratch->weights, tokens->count, target, scratch));
  find_best(tokens);
}

/* Keys that put the largest logit first. */
static const float* descending_keys(survivors* tokens) {
  float* keys = tokens->scratch->keys;
  for (int32_t i = 0; i < tokens->count; i++) keys[i] = -tokens->logits[i];
  return keys;
}

/* The k-th best of the blocks' best logits: at least k tokens are not below it. */
static float floor_of_top_k(const survivors* tokens, int32_t k) {
  int32_t num_blocks = num_blocks_of(tokens->count);
  if (k > num_blocks) return -FLT_MAX;
  sampler_scratch* scratch = tokens->scratch;
  for (int32_t i = 0; i < num_blocks; i++) scratch->keys[i] = -tokens->block_best[i];
  return -select_prefix(scratch->keys, NULL, num_blocks, k, scratch).key;
}

void keep_top_k(survivors* tokens, int32_t k) {
  if (k >= tokens->count) return;
  if (tokens->ids == NULL) keep_from(tokens, floor_of_top_k(tokens, k));
  if (k >= tokens->count) return;
  const float* keys = descending_keys(tokens);
  keep_prefix(tokens, keys, select_prefix(keys, NULL, tokens->count, k, tokens->scratch));
}

static void filter_top_p(survivors* tokens, float top_p, float inverse_temperature) {
  sampler_scratch* scratch = tokens->scratch;
  double mass = mass_of(tokens, inverse_temperature, NULL);
  list_down_to(tokens, tail_depth(tokens, 1.0 - (double)top_p, mass), inverse_temperature);
  mass_of(tokens, inverse_temperature, scratch->weights);
  const float* keys = descending_keys(tokens);
  keep_prefix(tokens, keys, select_prefix(keys, scratch->weights, tokens->count, (double)top_p * mass, scratch));
}

/* One number for each (seed, position) decides whether the row excludes its top choices at this position. */
static bool wins_xtc_coin(const rl_sampling* sampling) {
  stream_key key = stream_key_of(sampling->seed, sampling->position, STREAM_XTC);
  uint32_t word = random_words(key, splat_u32(0))[0];
  return ((double)word + 0.5) * 0x1p-32 < (double)sampling->xtc_probability;
}

/* Of the tokens that reach the threshold only the last in rank stays (lowest logit, highest id), and all that do not reach it. */
static void filter_xtc(survivors* tokens, float threshold, float inverse_temperature) {
  keep_from(tokens, -FLT_MAX);
  float* values = tokens->scratch->values;
  int32_t* ids = tokens->scratch->ids;
  float* weights = tokens->scratch->weights;
  double least = (double)threshold * mass_of(tokens, inverse_temperature, weights);
  int32_t last = -1;
  for (int32_t i = 0; i < tokens->count; i++) {
    if ((double)weights[i] >= least && (last < 0 || values[i] <= values[last])) last = i;
  }
  int32_t num_kept = 0;
  for (int32_t i = 0; i < tokens->count; i++) {
    values[num_kept] = values[i];
    ids[num_kept] = ids[i];
    num_kept += (i == last) | ((double)weights[i] < least);
  }
  tokens->count = num_kept;
  find_best(tokens);
}

void apply_filters(survivors* tokens, const rl_sampling* sampling) {
  float inverse_temperature = inverse_of(sampling->temperature);
  if (sampling->top_n_sigma > 0) filter_top_n_sigma(tokens, sampling->top_n_sigma);
  if (sampling->flags & RL_P_LESS) filter_p_less(tokens, inverse_temperature);
  if (sampling->typical_p < 1) filter_typical_p(tokens, sampling->typical_p);
  float inverse_rank_temperature = sampling->flags & RL_TEMPERATURE_LAST ? 1.0f : inverse_temperature;
  if (sampling->top_k > 0) keep_top_k(tokens, sampling->top_k);
  if (sampling->top_p < 1) filter_top_p(tokens, sampling->top_p, inverse_rank_temperature);
  if (sampling->min_p > 0) keep_from(tokens, floor_of(tokens, (double)sampling->min_p, inverse_rank_temperature));
  bool may_exclude = sampling->xtc_probability > 0 && sampling->xtc_threshold <= 0.5f;
  if (may_exclude && wins_xtc_coin(sampling)) filter_xtc(tokens, sampling->xtc_threshold, inverse_rank_temperature);
}
