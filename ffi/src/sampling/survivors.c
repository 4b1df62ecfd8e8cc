#include "survivors.h"

#include <float.h>

#include "vector_math.h"

survivors survivors_of_row(const row_logits* row, sampler_scratch* scratch) {
  return (survivors){
      .logits = row->values,
      .ids = NULL,
      .block_best = row->block_best,
      .count = row->vocabulary,
      .best = row->best,
      .scratch = scratch,
  };
}

/* One bit a token of a block: its logit is not below the floor. */
static uint64_t hits_of_block(const float* block, float floor) {
  uint64_t hits = 0;
  for (int32_t i = 0; i < BLOCK; i += LANES) hits |= (uint64_t)bits_of(load_f32(block + i) >= splat_f32(floor)) << i;
  return hits;
}

/* Most blocks have no hit or a few: a block's best says the first, its bits lead to the others. */
static int32_t list_from_row(const survivors* tokens, float floor) {
  float* values = tokens->scratch->values;
  int32_t* ids = tokens->scratch->ids;
  float padded[BLOCK];
  int32_t num_kept = 0;
  for (int32_t begin = 0; begin < tokens->count; begin += BLOCK) {
    if (tokens->block_best[begin / BLOCK] < floor) continue;
    const float* block = block_of(tokens->logits, begin, tokens->count, padded);
    for (uint64_t hits = hits_of_block(block, floor); hits != 0; hits &= hits - 1) {
      int32_t i = __builtin_ctzll(hits);
      values[num_kept] = block[i];
      ids[num_kept] = begin + i;
      num_kept++;
    }
  }
  return num_kept;
}

/* Writes always and advances on a match: without a branch to mispredict. */
static int32_t list_from_list(const survivors* tokens, float floor) {
  float* values = tokens->scratch->values;
  int32_t* ids = tokens->scratch->ids;
  int32_t num_kept = 0;
  for (int32_t i = 0; i < tokens->count; i++) {
    float value = values[i];
    ids[num_kept] = ids[i];
    values[num_kept] = value;
    num_kept += value >= floor;
  }
  return num_kept;
}

void keep_from(survivors* tokens, float floor) {
  if (!(floor >= -FLT_MAX)) floor = -FLT_MAX; /* banned tokens never come back */
  tokens->count = tokens->ids == NULL ? list_from_row(tokens, floor) : list_from_list(tokens, floor);
  tokens->logits = tokens->scratch->values;
  tokens->ids = tokens->scratch->ids;
  tokens->block_best = NULL;
}

void keep_prefix(survivors* tokens, const float* keys, selection_cut cut) {
  float* values = tokens->scratch->values;
  int32_t* ids = tokens->scratch->ids;
  int32_t num_kept = 0, num_equal = 0;
  for (int32_t i = 0; i < tokens->count; i++) {
    int32_t is_equal = keys[i] == cut.key;
    int32_t is_kept = (keys[i] < cut.key) | (is_equal & (num_equal < cut.num_equal));
    num_equal += is_equal;
    ids[num_kept] = ids[i];
    values[num_kept] = values[i];
    num_kept += is_kept;
  }
  tokens->count = num_kept;
}

void find_best(survivors* tokens) {
  float padded[BLOCK];
  f32x8 best = splat_f32(-INFINITY);
  for (int32_t begin = 0; begin < tokens->count; begin += BLOCK) {
    const float* block = block_of(tokens->logits, begin, tokens->count, padded);
    for (int32_t i = 0; i < BLOCK; i += LANES) best = max_f32(load_f32(block + i), best);
  }
  tokens->best = largest_f32(best);
}

double mass_of(const survivors* tokens, float inverse_temperature, float* weights) {
  float padded[BLOCK];
  const f32x8 best = splat_f32(tokens->best), scale = splat_f32(inverse_temperature);
  f64x4 low = splat_f64(0), high = splat_f64(0);
  for (int32_t begin = 0; begin < tokens->count; begin += BLOCK) {
    const float* block = block_of(tokens->logits, begin, tokens->count, padded);
    for (int32_t i = 0; i < BLOCK; i += LANES) {
      f32x8 e = exp_f32((load_f32(block + i) - best) * scale);
      if (weights != NULL) store_f32(weights + begin + i, e);
      low += low_f64(e);
      high += high_f64(e);
    }
  }
  return sum_f64(low + high);
}

mass_sums mass_sums_of(const survivors* tokens, float inverse_temperature) {
  float padded[BLOCK];
  const f32x8 best = splat_f32(tokens->best), scale = splat_f32(inverse_temperature);
  const f32x8 farthest = splat_f32(-FLT_MAX); /* keeps e * difference from being 0 * inf */
  f64x4 mass = splat_f64(0), squared = splat_f64(0), log = splat_f64(0);
  for (int32_t begin = 0; begin < tokens->count; begin += BLOCK) {
    const float* block = block_of(tokens->logits, begin, tokens->count, padded);
    for (int32_t i = 0; i < BLOCK; i += LANES) {
      f32x8 difference = max_f32(load_f32(block + i) - best, farthest);
      f32x8 e = exp_f32(difference * scale);
      f64x4 e_low = low_f64(e), e_high = high_f64(e);
      mass += e_low + e_high;
      squared += e_low * e_low + e_high * e_high;
      log += e_low * low_f64(difference) + e_high * high_f64(difference);
    }
  }
  return (mass_sums){.mass = sum_f64(mass), .mass_squared = sum_f64(squared), .mass_log = sum_f64(log)};
}

/* Differences to the best logit, in double: float16 and even float32 sums of squares overflow or cancel where these do not. */
double deviation_of(const survivors* tokens) {
  float padded[BLOCK];
  const f32x8 banned = splat_f32(-INFINITY), best = splat_f32(tokens->best);
  const f64x4 shift = splat_f64((double)tokens->best);
  i32x8 num_finite = splat_i32(0);
  f64x4 sum = splat_f64(0), squares = splat_f64(0);
  for (int32_t begin = 0; begin < tokens->count; begin += BLOCK) {
    const float* block = block_of(tokens->logits, begin, tokens->count, padded);
    for (int32_t i = 0; i < BLOCK; i += LANES) {
      f32x8 x = load_f32(block + i);
      i32x8 is_finite = x > banned;
      num_finite -= is_finite;
      x = select_f32(is_finite, x, best);
      f64x4 low = low_f64(x) - shift, high = high_f64(x) - shift;
      sum += low + high;
      squares += low * low + high * high;
    }
  }
  double count = 0;
  for (int lane = 0; lane < LANES; lane++) count += num_finite[lane];
  double mean = sum_f64(sum) / count;
  double variance = sum_f64(squares) / count - mean * mean;
  return variance > 0 ? sqrt(variance) : 0;
}

float round_up(double value) {
  float rounded = (float)value;
  return (double)rounded < value ? nextafterf(rounded, INFINITY) : rounded;
}
