/* The draw and its random words, where statistics do not reach: fixed values, the far tail of the noise, equal scores. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "rowlock.h"

enum { VOCABULARY = 4096 };

static rl_output* output;
static uint32_t words[VOCABULARY];

static void random_words_are_what_they_were(void) {
  static const struct {
    uint64_t seed;
    uint32_t position;
    uint32_t words[4];
  } pinned[] = {
      {UINT64_C(0), 0u, {0x33fab076u, 0x6cf71c15u, 0x69514d7fu, 0x70a17fd1u}},
      {UINT64_C(0), 1u, {0xf4127810u, 0xa4d5976au, 0xf06bcceeu, 0xb62475c4u}},
      {UINT64_C(1), 0u, {0xcde63f62u, 0xd0221977u, 0x13cd1491u, 0x4f751a50u}},
      {UINT64_C(42), 3u, {0xf805b714u, 0x4a0d1dcbu, 0x1844edeeu, 0x20c34a98u}},
      {UINT64_C(9223372036854775808), 0u, {0x2bb0b7dcu, 0xded91d4eu, 0xb7a5a245u, 0x57bb23d6u}},
      {UINT64_C(18446744073709551615), 4294967295u, {0xd9284626u, 0xf0269ca5u, 0x6ab8e1ecu, 0x4a2955d1u}},
      {UINT64_C(1234567890123456789), 4096u, {0xba6623beu, 0xf94630f6u, 0xde2fecf7u, 0xeb0d43c6u}},
  };
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
    CHECK_VALUES(rl_random_words(pinned[i].seed, pinned[i].position, words, 11) == RL_OK, "case %zu", i);
    for (int k = 0; k < 4; k++) CHECK_VALUES(words[k] == pinned[i].words[k], "case %zu, word %d: 0x%08x", i, k, words[k]);
    uint32_t fewer[4] = {0, 0, 0, 77};
    CHECK_VALUES(rl_random_words(pinned[i].seed, pinned[i].position, fewer, 3) == RL_OK && fewer[3] == 77, "case %zu: %u", i, fewer[3]);
  }
}

static double gumbel(uint32_t word) {
  return -log(-log1p(-((double)word + 0.5) / 4294967296.0));
}

/* Draws from two tokens alone, of which the first has `advantage`. */
static int32_t draw_of_two(uint32_t position, int32_t first, int32_t second, float advantage) {
  float logits[VOCABULARY];
  for (int32_t i = 0; i < VOCABULARY; i++) logits[i] = -INFINITY;
  logits[first] = advantage;
  logits[second] = 0;
  const rl_sampling row = {.seed = 7, .position = position, .temperature = 1, .top_p = 1, .typical_p = 1, .mask = -1};
  rl_sampled sampled = {.token = -7};
  CHECK(rl_output_write(output, logits, 1, VOCABULARY, 0) == RL_OK);
  CHECK(rl_sample(output, &row, 1, NULL, 0, NULL, 0, &sampled, NULL, NULL) == RL_OK);
  return sampled.token;
}

/* Words below 2000 are noise of 14 and more: a float32 1 - v has lost most of v there. */
static void the_far_tail_of_the_noise_is_exact(void) {
  int num_found = 0;
  for (uint32_t position = 0; position < 60000 && num_found < 30; position++) {
    CHECK(rl_random_words(7, position, words, VOCABULARY) == RL_OK);
    for (int32_t token = 1; token < VOCABULARY; token++) {
      if (words[token] >= 2000) continue;
      double advantage = gumbel(words[token]) - gumbel(words[0]);
      int32_t ahead = draw_of_two(position, 0, token, (float)(advantage + 1e-4));
      int32_t behind = draw_of_two(position, 0, token, (float)(advantage - 1e-4));
      CHECK_VALUES(ahead == 0 && behind == token, "word %u of token %d: drew %d and %d", words[token], token, ahead, behind);
      num_found++;
    }
  }
  CHECK_VALUES(num_found >= 30, "only %d small words", num_found);
}

static int compare_by_word(const void* left, const void* right) {
  uint32_t a = words[*(const int32_t*)left], b = words[*(const int32_t*)right];
  return a < b ? -1 : a > b;
}

/* Two words this close give one float32 score; the higher id has the smaller word, so that exact arithmetic would prefer it. */
static void equal_scores_go_to_the_lower_id(void) {
  int num_found = 0;
  for (uint32_t position = 0; position < 20000 && num_found < 5; position++) {
    CHECK(rl_random_words(7, position, words, VOCABULARY) == RL_OK);
    int32_t order[VOCABULARY];
    for (int32_t i = 0; i < VOCABULARY; i++) order[i] = i;
    qsort(order, VOCABULARY, sizeof *order, compare_by_word);
    for (int32_t i = 0; i + 1 < VOCABULARY; i++) {
      uint32_t smaller = words[order[i]], larger = words[order[i + 1]];
      if (smaller < 0x80000000u || larger > 0xa0000000u || larger - smaller > 4 || order[i] < order[i + 1]) continue;
      int32_t drawn = draw_of_two(position, order[i + 1], order[i], 0);
      CHECK_VALUES(drawn == order[i + 1], "words %u and %u: drew %d, not %d", smaller, larger, drawn, order[i + 1]);
      num_found++;
    }
  }
  CHECK_VALUES(num_found >= 5, "only %d pairs", num_found);
}

int main(void) {
  CHECK(rl_output_new(&output) == RL_OK);
  random_words_are_what_they_were();
  the_far_tail_of_the_noise_is_exact();
  equal_scores_go_to_the_lower_id();
  CHECK(rl_output_free(output) == RL_OK);
  return finish();
}
