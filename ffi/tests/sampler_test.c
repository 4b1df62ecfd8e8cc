/* The sampler through rowlock.h alone: what it refuses, and the rows at the edges of what it accepts. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rowlock.h"

static rl_output* output;

static void write_rows(const float* logits, int32_t num_rows, int32_t vocabulary) {
  CHECK_VALUES(rl_output_write(output, logits, num_rows, vocabulary, 0) == RL_OK, "%d rows of %d", num_rows, vocabulary);
}

static rl_sampling greedy_row(void) {
  return (rl_sampling){.temperature = 0, .top_p = 1, .typical_p = 1, .xtc_threshold = 0.1f, .num_top_logprobs = -1, .mask = -1};
}

static rl_sampling warm_row(float temperature) {
  rl_sampling row = greedy_row();
  row.temperature = temperature;
  return row;
}

/* What the device's stream draws: the same as the host. */
static void check_stream(const rl_sampling* rows, int32_t num_rows, const rl_edit* edits, int32_t num_edits, const uint32_t* masks,
                         int32_t num_masks) {
  rl_sampled waited[8], started[8];
  int32_t tokens[2][8 * RL_TOP_LOGPROBS_MAX];
  float logprobs[2][8 * RL_TOP_LOGPROBS_MAX];
  CHECK(rl_sample(output, rows, num_rows, edits, num_edits, masks, num_masks, waited, tokens[0], logprobs[0]) == RL_OK);
  CHECK(rl_sample_start(output, rows, num_rows, edits, num_edits, masks, num_masks) == RL_OK);
  CHECK(rl_sample_finish(output, started, num_rows, tokens[1], logprobs[1]) == RL_OK);
  CHECK(memcmp(waited, started, (size_t)num_rows * sizeof *waited) == 0);
  for (int32_t row = 0; row < num_rows; row++) {
    if (rows[row].num_top_logprobs <= 0) continue;
    size_t begin = (size_t)row * RL_TOP_LOGPROBS_MAX;
    CHECK(memcmp(tokens[0] + begin, tokens[1] + begin, RL_TOP_LOGPROBS_MAX * sizeof **tokens) == 0);
    CHECK(memcmp(logprobs[0] + begin, logprobs[1] + begin, RL_TOP_LOGPROBS_MAX * sizeof **logprobs) == 0);
  }
}

static rl_sampled sample_one(const rl_sampling* row, const rl_edit* edits, int32_t num_edits, const uint32_t* masks, int32_t num_masks) {
  rl_sampled sampled = {.token = -7};
  int32_t status = rl_sample(output, row, 1, edits, num_edits, masks, num_masks, &sampled, NULL, NULL);
  char text[200];
  rl_last_error(text, sizeof text);
  CHECK_VALUES(status == RL_OK, "status %d: %s", status, text);
  check_stream(row, 1, edits, num_edits, masks, num_masks);
  return sampled;
}

static void check_refused(int32_t status, const char* words) {
  char text[300];
  rl_last_error(text, sizeof text);
  CHECK_VALUES(status == RL_ERR_ARGUMENT, "status %d for %s", status, words);
  CHECK_VALUES(strstr(text, words) != NULL, "\"%s\" does not say \"%s\"", text, words);
}

static void check_row_refused(rl_sampling bad, const char* words) {
  rl_sampling rows[2] = {greedy_row(), bad};
  rl_sampled sampled[2] = {{.token = -7}, {.token = -7}};
  const rl_edit edit = {.token = 0, .repetition = 1};
  const uint32_t mask = 15;
  check_refused(rl_sample(output, rows, 2, &edit, 1, &mask, 1, sampled, NULL, NULL), words);
  CHECK_VALUES(sampled[0].token == -7 && sampled[1].token == -7, "%s: %d and %d were written", words, sampled[0].token, sampled[1].token);
}

static void check_edit_refused(rl_edit edit, const char* words) {
  rl_sampling rows[2] = {greedy_row(), greedy_row()};
  rows[1].edits_end = 1;
  rl_sampled sampled[2];
  check_refused(rl_sample(output, rows, 2, &edit, 1, NULL, 0, sampled, NULL, NULL), words);
}

#define REFUSE(field, wrong, words)     \
  do {                                  \
    rl_sampling bad = warm_row(1);      \
    bad.field = wrong;                  \
    check_row_refused(bad, words);      \
  } while (0)

static void refuses_rows_outside_their_domain(void) {
  const float logits[8] = {0, 1, 2, 3, 3, 2, 1, 0};
  write_rows(logits, 2, 4);
  REFUSE(temperature, -1, "row 1: temperature is -1, allowed 0 to");
  REFUSE(temperature, NAN, "row 1: temperature is ");
  REFUSE(temperature, INFINITY, "row 1: temperature is inf");
  REFUSE(top_p, 1.5f, "row 1: top_p is 1.5, allowed 0 to 1");
  REFUSE(top_p, NAN, "top_p");
  REFUSE(top_k, -1, "row 1: top_k is -1, allowed 0 or more");
  REFUSE(min_p, -0.5f, "row 1: min_p is -0.5, allowed 0 to 1");
  REFUSE(min_p, NAN, "min_p");
  REFUSE(top_n_sigma, -1, "row 1: top_n_sigma is -1, allowed 0 to");
  REFUSE(top_n_sigma, NAN, "top_n_sigma");
  REFUSE(typical_p, -0.1f, "row 1: typical_p is -0.1, allowed 0 to 1");
  REFUSE(typical_p, NAN, "typical_p");
  REFUSE(xtc_probability, 2, "row 1: xtc_probability is 2, allowed 0 to 1");
  REFUSE(xtc_threshold, NAN, "xtc_threshold");
  REFUSE(flags, 8, "row 1: flags is 8, allowed bits 3");
  REFUSE(num_top_logprobs, 21, "row 1: num_top_logprobs is 21, allowed -1 to 20");
  REFUSE(num_top_logprobs, -2, "row 1: num_top_logprobs is -2");
  REFUSE(num_top_logprobs, 1, "row 1: num_top_logprobs is 1, but top_tokens is NULL");
  REFUSE(mask, 1, "row 1: mask is 1, allowed -1 to 0");
  REFUSE(mask, -2, "row 1: mask is -2");
  REFUSE(edits_end, 2, "row 1: edits are 0 to 2, allowed 0 to 1");
  REFUSE(edits_begin, 1, "row 1: edits are 1 to 0");
  REFUSE(edits_begin, -1, "row 1: edits are -1 to 0");
  check_edit_refused((rl_edit){.token = 4, .repetition = 1}, "row 1: edit 0: token is 4, allowed 0 to 3");
  check_edit_refused((rl_edit){.token = -1, .repetition = 1}, "row 1: edit 0: token is -1");
  check_edit_refused((rl_edit){.token = 0, .bias = NAN, .repetition = 1}, "row 1: edit 0: bias is ");
  check_edit_refused((rl_edit){.token = 0, .bias = INFINITY, .repetition = 1}, "row 1: edit 0: bias is inf");
  check_edit_refused((rl_edit){.token = 0, .repetition = 0}, "row 1: edit 0: repetition is 0, allowed above 0");
  check_edit_refused((rl_edit){.token = 0, .repetition = NAN}, "row 1: edit 0: repetition");
  check_edit_refused((rl_edit){.token = 0, .repetition = 1, .subtract = INFINITY}, "row 1: edit 0: subtract is inf");
}

static void refuses_arguments_that_are_missing(void) {
  const float logits[4] = {0, 1, 2, 3};
  write_rows(logits, 1, 4);
  const rl_sampling row = greedy_row();
  rl_sampled sampled;
  uint32_t word;
  check_refused(rl_sample(NULL, &row, 1, NULL, 0, NULL, 0, &sampled, NULL, NULL), "output is NULL");
  check_refused(rl_sample(output, NULL, 1, NULL, 0, NULL, 0, &sampled, NULL, NULL), "rows is NULL");
  check_refused(rl_sample(output, &row, 1, NULL, 0, NULL, 0, NULL, NULL, NULL), "sampled is NULL");
  check_refused(rl_sample(output, &row, 2, NULL, 0, NULL, 0, &sampled, NULL, NULL), "num_rows is 2, allowed 1");
  check_refused(rl_sample(output, &row, 1, NULL, 3, NULL, 0, &sampled, NULL, NULL), "edits is NULL, num_edits is 3");
  check_refused(rl_sample(output, &row, 1, NULL, -1, NULL, 0, &sampled, NULL, NULL), "num_edits is -1");
  check_refused(rl_sample(output, &row, 1, NULL, 0, NULL, 2, &sampled, NULL, NULL), "masks is NULL, num_masks is 2");
  check_refused(rl_sample_distribution(output, 1, &row, NULL, 0, NULL, 0, NULL, NULL), "row is 1, allowed 0 to 0");
  check_refused(rl_sample_distribution(output, 0, NULL, NULL, 0, NULL, 0, NULL, NULL), "sampling is NULL");
  check_refused(rl_random_words(1, 0, NULL, 4), "words is NULL");
  check_refused(rl_random_words(1, 0, &word, -4), "count is -4");
}

static void greedy_takes_the_lowest_id_of_the_best(void) {
  float logits[200];
  for (int i = 0; i < 200; i++) logits[i] = -1;
  logits[70] = logits[71] = logits[150] = 2;
  write_rows(logits, 1, 200);
  rl_sampling row = greedy_row();
  CHECK_VALUES(sample_one(&row, NULL, 0, NULL, 0).token == 70, "token %d", sample_one(&row, NULL, 0, NULL, 0).token);
  row.temperature = 0.9e-5f;
  row.top_k = 5;
  rl_sampled sampled = sample_one(&row, NULL, 0, NULL, 0);
  CHECK_VALUES(sampled.token == 70 && sampled.num_kept == 1, "token %d of %d", sampled.token, sampled.num_kept);
  const float zeros[3] = {-1, -0.0f, 0.0f}; /* both zeros are equal */
  write_rows(zeros, 1, 3);
  CHECK_VALUES(sample_one(&row, NULL, 0, NULL, 0).token == 1, "token %d", sample_one(&row, NULL, 0, NULL, 0).token);
  const float more_zeros[3] = {-0.0f, 0.0f, -0.0f};
  write_rows(more_zeros, 1, 3);
  row = warm_row(1);
  row.top_k = 2;
  uint8_t kept[3];
  rl_sample_distribution(output, 0, &row, NULL, 0, NULL, 0, kept, NULL);
  CHECK_VALUES(kept[0] == 1 && kept[1] == 1 && kept[2] == 0, "kept %d%d%d", kept[0], kept[1], kept[2]);
}

static void nan_is_never_drawn_and_infinity_is_the_largest_number(void) {
  const float logits[6] = {NAN, 1, INFINITY, FLT_MAX, -NAN, -INFINITY};
  write_rows(logits, 1, 6);
  const rl_sampling greedy = greedy_row();
  CHECK_VALUES(sample_one(&greedy, NULL, 0, NULL, 0).token == 2, "token %d", sample_one(&greedy, NULL, 0, NULL, 0).token);
  uint8_t kept[6];
  float probabilities[6];
  const rl_sampling warm = warm_row(0.5f);
  rl_sample_distribution(output, 0, &warm, NULL, 0, NULL, 0, kept, probabilities);
  const uint8_t expected[6] = {0, 1, 1, 1, 0, 0};
  CHECK_VALUES(memcmp(kept, expected, 6) == 0, "kept %d%d%d%d%d%d", kept[0], kept[1], kept[2], kept[3], kept[4], kept[5]);
  CHECK_VALUES(probabilities[2] == 0.5f && probabilities[3] == 0.5f, "%g and %g", (double)probabilities[2], (double)probabilities[3]);
  CHECK_VALUES(probabilities[0] == 0 && probabilities[1] == 0, "%g and %g", (double)probabilities[0], (double)probabilities[1]);
  float far_apart[200] = {[10] = FLT_MAX, [150] = INFINITY};
  write_rows(far_apart, 1, 200);
  CHECK_VALUES(sample_one(&greedy, NULL, 0, NULL, 0).token == 10, "token %d", sample_one(&greedy, NULL, 0, NULL, 0).token);
  const float descending[3] = {-FLT_MAX, NAN, FLT_MAX};
  write_rows(descending, 1, 3);
  rl_sampling all = warm_row(1);
  all.top_n_sigma = 2, all.flags = RL_P_LESS, all.typical_p = 0.9f, all.top_k = 2, all.top_p = 0.9f, all.min_p = 0.1f;
  CHECK_VALUES(sample_one(&all, NULL, 0, NULL, 0).token == 2, "token %d", sample_one(&all, NULL, 0, NULL, 0).token);
}

static void a_broken_row_says_so_and_its_neighbours_are_unharmed(void) {
  const float logits[12] = {1, 5, 2, 0, NAN, -INFINITY, NAN, NAN, 0, 0, 9, 0};
  write_rows(logits, 3, 4);
  rl_sampling rows[3] = {greedy_row(), greedy_row(), greedy_row()};
  rl_sampled sampled[3];
  int32_t top_tokens[3 * RL_TOP_LOGPROBS_MAX];
  float top_logprobs[3 * RL_TOP_LOGPROBS_MAX];
  for (int mode = 0; mode < 3; mode++) {
    rows[1].temperature = mode == 0 ? 0 : 1;
    rows[1].top_p = mode == 2 ? 0.5f : 1;
    rows[1].num_top_logprobs = mode == 1 ? 3 : -1;
    CHECK_VALUES(rl_sample(output, rows, 3, NULL, 0, NULL, 0, sampled, top_tokens, top_logprobs) == RL_OK, "mode %d", mode);
    check_stream(rows, 3, NULL, 0, NULL, 0);
    CHECK_VALUES(sampled[1].token == -1, "mode %d: token %d", mode, sampled[1].token);
    CHECK_VALUES(sampled[1].flags == RL_ROW_BROKEN, "mode %d: flags %u", mode, sampled[1].flags);
    CHECK_VALUES(sampled[1].num_kept == 0 && sampled[1].logprob == 0, "mode %d: %d kept", mode, sampled[1].num_kept);
    CHECK_VALUES(sampled[0].token == 1 && sampled[2].token == 2, "mode %d: %d and %d", mode, sampled[0].token, sampled[2].token);
    CHECK_VALUES(sampled[0].flags == 0 && sampled[2].flags == 0, "mode %d: %u and %u", mode, sampled[0].flags, sampled[2].flags);
    CHECK_VALUES(top_tokens[RL_TOP_LOGPROBS_MAX] == -1, "mode %d: %d", mode, top_tokens[RL_TOP_LOGPROBS_MAX]);
  }
}

static void masks_ban_and_the_last_word_may_be_partial(void) {
  enum { VOCABULARY = 70, WORDS = 3 };
  float logits[VOCABULARY];
  for (int i = 0; i < VOCABULARY; i++) logits[i] = (float)i;
  write_rows(logits, 1, VOCABULARY);
  for (int32_t only = 0; only < VOCABULARY; only++) {
    uint32_t masks[2 * WORDS] = {~0u, ~0u, ~0u, 0, 0, 0};
    masks[WORDS + only / 32] = 1u << (only % 32);
    rl_sampling row = greedy_row();
    row.mask = 1;
    CHECK_VALUES(sample_one(&row, NULL, 0, masks, 2).token == only, "only %d", only);
    row.temperature = 3;
    const rl_sampled sampled = sample_one(&row, NULL, 0, masks, 2);
    CHECK_VALUES(sampled.token == only && sampled.num_kept == 1, "only %d: token %d of %d", only, sampled.token, sampled.num_kept);
  }
  const uint32_t none[WORDS] = {0, 0, 0};
  rl_sampling row = greedy_row();
  row.mask = 0;
  CHECK(sample_one(&row, NULL, 0, none, 1).flags == RL_ROW_BROKEN);
}

static void edits_follow_their_formula(void) {
  const float logits[6] = {4, -4, 4, 4, 1, -INFINITY};
  write_rows(logits, 1, 6);
  const rl_edit edits[6] = {
      {.token = 0, .bias = 0, .repetition = 2, .subtract = 0},
      {.token = 1, .bias = 1, .repetition = 2, .subtract = 0.5f},
      {.token = 2, .bias = -INFINITY, .repetition = 1, .subtract = 0},
      {.token = 3, .bias = 3e38f, .repetition = 0.001f, .subtract = -3e38f},
      {.token = 4, .bias = -3e38f, .repetition = 1000, .subtract = 3e38f},
      {.token = 5, .bias = 100, .repetition = 1, .subtract = -100},
  };
  rl_sampling row = greedy_row();
  row.edits_end = 3;
  row.num_top_logprobs = 20;
  rl_sampled sampled;
  int32_t top_tokens[RL_TOP_LOGPROBS_MAX];
  float top_logprobs[RL_TOP_LOGPROBS_MAX];
  CHECK(rl_sample(output, &row, 1, edits, 6, NULL, 0, &sampled, top_tokens, top_logprobs) == RL_OK);
  check_stream(&row, 1, edits, 6, NULL, 0);
  const double expected[4] = {4, 2, 1, -6.5}; /* tokens 3, 0, 4, 1 */
  const int32_t order[4] = {3, 0, 4, 1};
  for (int i = 0; i < 4; i++) {
    double difference = (double)top_logprobs[i] - (double)top_logprobs[0] - (expected[i] - expected[0]);
    CHECK_VALUES(top_tokens[i] == order[i] && fabs(difference) < 1e-5, "place %d: token %d, %g off", i, top_tokens[i], difference);
  }
  CHECK_VALUES(top_tokens[4] == -1 && top_logprobs[4] == 0, "banned tokens are no alternatives: %d", top_tokens[4]);
  row = warm_row(1);
  row.edits_begin = 3, row.edits_end = 6;
  uint8_t kept[6];
  rl_sample_distribution(output, 0, &row, edits, 6, NULL, 0, kept, NULL);
  CHECK_VALUES(kept[2] == 1, "an edit outside the row's range banned a token");
  CHECK_VALUES(kept[3] == 1 && kept[4] == 1, "numbers stay numbers when they overflow: %d and %d", kept[3], kept[4]);
  CHECK_VALUES(kept[5] == 0, "-inf stays -inf whatever is added: %d", kept[5]);
  CHECK_VALUES(sample_one(&row, edits, 6, NULL, 0).token == 3, "token %d", sample_one(&row, edits, 6, NULL, 0).token);
}

static void refuses_draws_on_the_stream_as_it_does_others(void) {
  const float logits[8] = {1, 5, 2, 0, 3, 0, 0, 9};
  rl_sampling rows[2] = {greedy_row(), greedy_row()};
  rl_sampled sampled[2] = {{.token = -7}, {.token = -7}};
  write_rows(logits, 2, 4);
  check_refused(rl_sample_start(NULL, rows, 2, NULL, 0, NULL, 0), "no logits");
  check_refused(rl_sample_start(output, NULL, 2, NULL, 0, NULL, 0), "num_rows is 2");
  check_refused(rl_sample_start(output, rows, 1, NULL, 0, NULL, 0), "num_rows is 1, allowed 2");
  check_refused(rl_sample_start(output, rows, 2, NULL, 1, NULL, 0), "num_edits");
  rows[1].temperature = -1;
  check_refused(rl_sample_start(output, rows, 2, NULL, 0, NULL, 0), "temperature");
  rows[1].temperature = 0;
  check_refused(rl_sample_finish(output, sampled, 2, NULL, NULL), "no draws");
  CHECK(rl_sample_start(output, rows, 2, NULL, 0, NULL, 0) == RL_OK);
  check_refused(rl_sample_finish(output, sampled, 1, NULL, NULL), "allowed 2");
  check_refused(rl_sample_finish(output, NULL, 2, NULL, NULL), "allowed 2");
  CHECK(sampled[0].token == -7);
  CHECK(rl_sample_finish(output, sampled, 2, NULL, NULL) == RL_OK && sampled[0].token == 1 && sampled[1].token == 3);
  write_rows(logits, 2, 4);
  check_refused(rl_sample_finish(output, sampled, 2, NULL, NULL), "no draws"); /* those of other logits are gone */
  CHECK(rl_output_clear(output) == RL_OK && rl_output_clear(NULL) == RL_ERR_ARGUMENT);
  check_refused(rl_sample_start(output, rows, 2, NULL, 0, NULL, 0), "no logits");
}

int main(void) {
  CHECK(rl_output_new(&output) == RL_OK);
  refuses_rows_outside_their_domain();
  refuses_arguments_that_are_missing();
  greedy_takes_the_lowest_id_of_the_best();
  nan_is_never_drawn_and_infinity_is_the_largest_number();
  a_broken_row_says_so_and_its_neighbours_are_unharmed();
  masks_ban_and_the_last_word_may_be_partial();
  edits_follow_their_formula();
  refuses_draws_on_the_stream_as_it_does_others();
  CHECK(rl_output_free(output) == RL_OK);
  return finish();
}
