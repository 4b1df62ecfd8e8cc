#include "draw.h"

typedef struct drawing {
  float best, inverse_temperature;
  stream_key key;
  float score; /* of the leading token */
  int32_t token;
} drawing;

/* The words of one block of tokens; returns the smallest, which is the largest noise. */
static uint32_t words_of_block(const drawing* draw, const int32_t* ids, uint32_t words[BLOCK]) {
  u32x8 smallest = splat_u32(UINT32_MAX);
  for (int32_t i = 0; i < BLOCK; i += LANES) {
    u32x8 word = random_words(draw->key, (u32x8)load_i32(ids + i));
    store_u32(words + i, word);
    smallest = min_u32(word, smallest);
  }
  return smallest_u32(smallest);
}

/* Whether noise from `word` could lift a logit that scores `scaled` without noise above the leading score. Noise is at most -ln(v),
 * v = (word + 1/2) / 2^32, so v <= exp(scaled - score) is necessary. That power of two is rounded up generously instead of computed. */
static bool can_lead(const drawing* draw, float scaled, uint32_t word) {
  float exponent = (scaled - draw->score) * 1.44269502f + 32.02f;
  if (exponent >= 31.0f) return true;
  if (exponent < -1.0f) return false; /* 2^exponent is below 1/2, the smallest that word + 1/2 can be */
  return word <= (UINT32_C(2) << (int32_t)exponent);
}

static void score_block(drawing* draw, const float* logits, const int32_t* ids, const uint32_t words[BLOCK]) {
  float scores[BLOCK];
  for (int32_t i = 0; i < BLOCK; i += LANES) {
    u32x8 word;
    memcpy(&word, words + i, sizeof word);
    f32x8 scaled = (load_f32(logits + i) - splat_f32(draw->best)) * splat_f32(draw->inverse_temperature);
    store_f32(scores + i, scaled + gumbel_f32(word));
  }
  for (int32_t i = 0; i < BLOCK; i++) {
    if (scores[i] <= draw->score) continue;
    draw->score = scores[i];
    draw->token = ids[i];
  }
}

static float best_of_block(const float* logits) {
  f32x8 best = load_f32(logits);
  for (int32_t i = LANES; i < BLOCK; i += LANES) best = max_f32(load_f32(logits + i), best);
  return largest_f32(best);
}

/* A block's ids. What pads the last block of a list is never looked up: its logits are -inf. */
static const int32_t* ids_of_block(const survivors* tokens, int32_t begin, int32_t buffer[BLOCK]) {
  int32_t num_left = tokens->count - begin;
  if (tokens->ids == NULL) {
    for (int32_t i = 0; i < BLOCK; i++) buffer[i] = begin + i;
    return buffer;
  }
  if (num_left >= BLOCK) return tokens->ids + begin;
  memset(buffer, 0, BLOCK * sizeof *buffer);
  memcpy(buffer, tokens->ids + begin, (size_t)num_left * sizeof *buffer);
  return buffer;
}

/* Most blocks are settled without a logarithm: by their best logit alone, or by it and their smallest word. */
int32_t draw_token(const survivors* tokens, float inverse_temperature, stream_key key) {
  drawing draw = {.best = tokens->best, .inverse_temperature = inverse_temperature, .key = key, .score = -INFINITY, .token = -1};
  float padded[BLOCK];
  int32_t buffer[BLOCK];
  uint32_t words[BLOCK];
  for (int32_t begin = 0; begin < tokens->count; begin += BLOCK) {
    const float* logits = block_of(tokens->logits, begin, tokens->count, padded);
    float block_best = tokens->block_best != NULL ? tokens->block_best[begin / BLOCK] : best_of_block(logits);
    float scaled = (block_best - draw.best) * inverse_temperature;
    if (!(scaled + GUMBEL_MAX > draw.score)) continue;
    const int32_t* ids = ids_of_block(tokens, begin, buffer);
    uint32_t smallest = words_of_block(&draw, ids, words);
    if (can_lead(&draw, scaled, smallest)) score_block(&draw, logits, ids, words);
  }
  return draw.token;
}
