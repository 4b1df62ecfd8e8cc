#include "row_logits.h"

#include <float.h>

#include "simd.h"

static float block_maximum(const float* block) {
  f32x8 even = splat_f32(-INFINITY), odd = even;
  for (int32_t i = 0; i < BLOCK; i += 2 * LANES) {
    even = max_f32(load_f32(block + i), even);
    odd = max_f32(load_f32(block + i + LANES), odd);
  }
  return largest_f32(max_f32(even, odd));
}

int32_t best_token_of(const float* logits, int32_t vocabulary) {
  float padded[BLOCK];
  float best = -INFINITY;
  int32_t best_begin = -1;
  for (int32_t begin = 0; begin < vocabulary; begin += BLOCK) {
    float largest = block_maximum(block_of(logits, begin, vocabulary, padded));
    if (largest <= best) continue;
    best = largest;
    best_begin = begin;
    if (best == INFINITY) break;
  }
  if (best_begin < 0) return -1;
  if (best >= FLT_MAX) best_begin = 0; /* +inf counts as the largest number: a token that has just that may come first */
  int32_t token = best_begin;
  while (!(logits[token] >= best) && !(logits[token] >= FLT_MAX)) token++;
  return token;
}

/* The lanes of `bits` that are set, lowest bit first. */
SIMD_INLINE i32x8 lanes_of(uint32_t bits) {
  const i32x8 lane_bit = {1, 2, 4, 8, 16, 32, 64, 128};
  return (splat_i32((int32_t)bits) & lane_bit) != splat_i32(0);
}

/* NaN becomes -inf, +inf the largest number. */
SIMD_INLINE f32x8 number_or_banned(f32x8 x, i32x8 is_allowed) {
  f32x8 banned = splat_f32(-INFINITY);
  return select_f32(is_allowed & (x > banned), min_f32(x, splat_f32(FLT_MAX)), banned);
}

static void copy_masked(float* target, const float* logits, int32_t vocabulary, const uint32_t* mask) {
  float padded[BLOCK];
  int32_t num_words = (vocabulary + 31) / 32;
  for (int32_t begin = 0; begin < vocabulary; begin += BLOCK) {
    const float* block = block_of(logits, begin, vocabulary, padded);
    int32_t word = begin / 32;
    uint64_t allowed = UINT64_MAX;
    if (mask != NULL) allowed = mask[word] | (word + 1 < num_words ? (uint64_t)mask[word + 1] << 32 : 0);
    for (int32_t i = 0; i < BLOCK; i += LANES) {
      i32x8 is_allowed = lanes_of((uint32_t)(allowed >> i) & 0xffu);
      store_f32(target + begin + i, number_or_banned(load_f32(block + i), is_allowed));
    }
  }
}

/* In double, rounded once. A number stays a number: only a bias of -inf bans. */
static float edited(float logit, const rl_edit* edit) {
  if (logit == -INFINITY || edit->bias == -INFINITY) return -INFINITY;
  double z = (double)logit + (double)edit->bias;
  z = z < 0 ? z * (double)edit->repetition : z / (double)edit->repetition;
  z -= (double)edit->subtract;
  if (z > (double)FLT_MAX) return FLT_MAX;
  if (z < -(double)FLT_MAX) return -FLT_MAX;
  return (float)z;
}

/* Finds the best value of every block and counts the values above -inf. */
static row_logits scan(const float* values, int32_t vocabulary, float* block_best) {
  float padded[BLOCK];
  const f32x8 banned = splat_f32(-INFINITY);
  i32x8 num_finite = splat_i32(0);
  float best = -INFINITY;
  for (int32_t begin = 0; begin < vocabulary; begin += BLOCK) {
    const float* block = block_of(values, begin, vocabulary, padded);
    f32x8 even = banned, odd = banned;
    for (int32_t i = 0; i < BLOCK; i += 2 * LANES) {
      f32x8 x = load_f32(block + i), y = load_f32(block + i + LANES);
      even = max_f32(x, even);
      odd = max_f32(y, odd);
      num_finite -= (x > banned) + (y > banned);
    }
    float largest = largest_f32(max_f32(even, odd));
    block_best[begin / BLOCK] = largest;
    if (largest > best) best = largest;
  }
  int32_t total = 0;
  for (int lane = 0; lane < LANES; lane++) total += num_finite[lane];
  return (row_logits){.values = values, .block_best = block_best, .vocabulary = vocabulary, .num_finite = total, .best = best};
}

row_logits row_logits_of(const float* logits, int32_t vocabulary, const uint32_t* mask, const rl_edit* edits, int32_t num_edits,
                         sampler_scratch* scratch) {
  if (mask == NULL && num_edits == 0) {
    row_logits row = scan(logits, vocabulary, scratch->block_best);
    if (row.num_finite == vocabulary && row.best < INFINITY) return row;
  }
  copy_masked(scratch->logits, logits, vocabulary, mask);
  for (int32_t i = 0; i < num_edits; i++) {
    float* logit = &scratch->logits[edits[i].token];
    *logit = edited(*logit, &edits[i]);
  }
  return scan(scratch->logits, vocabulary, scratch->block_best);
}
