/* Thousands of random rows against the definition in sampler_reference.h: survivors, probabilities, draws and logprobs. */
#include <string.h>

#include "check.h"
#include "sampler_reference.h"

enum { MAX_VOCABULARY = 151936, MAX_EDITS = 8 };

static rl_output* output;
static float logits[MAX_VOCABULARY], processed[MAX_VOCABULARY], probabilities[MAX_VOCABULARY];
static uint8_t kept[MAX_VOCABULARY];
static uint32_t words[MAX_VOCABULARY], mask[(MAX_VOCABULARY + 31) / 32];
static candidate candidates[MAX_VOCABULARY];
static int num_rows_close, num_rows_compared;

static uint64_t random_state = 20260101;

static double uniform(void) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static int32_t below(int32_t limit) {
  return (int32_t)(uniform() * limit);
}

static double normal(void) {
  return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Shapes that reach every path: smooth, with outliers, with many ties as from bfloat16, all equal, with holes, huge. */
static void make_logits(int32_t vocabulary) {
  int32_t shape = below(7);
  double spread = shape == 5 ? 1e30 : 0.1 + 4 * uniform();
  double level = 20 * uniform() - 10;
  for (int32_t i = 0; i < vocabulary; i++) {
    double x = level + spread * normal();
    if (shape == 1 && below(vocabulary) < 20) x += 10 * uniform();
    if (shape == 2) x = floor(x * 4) / 4;
    if (shape == 3) x = level;
    logits[i] = (float)x;
    if (shape == 4 && uniform() < 0.3) logits[i] = uniform() < 0.5 ? -INFINITY : NAN;
  }
  logits[below(vocabulary)] = (float)(level + spread);
}

static float one_of(float a, float b, float c, float d) {
  const float values[4] = {a, b, c, d};
  return values[below(4)];
}

static rl_sampling random_row(void) {
  rl_sampling row = {.seed = (uint64_t)below(1 << 30) << 34, .position = (uint32_t)below(5000), .temperature = one_of(0.3f, 0.8f, 1, 2.5f)};
  row.top_p = row.typical_p = 1;
  row.xtc_threshold = 0.1f;
  row.num_top_logprobs = -1;
  row.mask = -1;
  bool is_single = uniform() < 0.5; /* every filter alone, or each one with some probability */
  int32_t only = below(8);
#define CHANCE(number) (is_single ? only == (number) : uniform() < 0.3)
  if (CHANCE(0)) row.top_n_sigma = one_of(0.5f, 1, 2, 3);
  if (CHANCE(1)) row.flags |= RL_P_LESS;
  if (CHANCE(2)) row.typical_p = one_of(0.2f, 0.5f, 0.9f, 0.99f);
  if (CHANCE(3)) row.top_k = (int32_t)one_of(1, 5, 40, 1000);
  if (CHANCE(4)) row.top_p = one_of(0, 0.3f, 0.9f, 0.999f);
  if (CHANCE(5)) row.min_p = one_of(0.5f, 0.1f, 0.02f, 1);
  if (CHANCE(6)) row.xtc_probability = 1, row.xtc_threshold = one_of(0.01f, 0.1f, 0.3f, 0.5f);
  if (uniform() < 0.3) row.flags |= RL_TEMPERATURE_LAST;
  if (uniform() < 0.1) row.temperature = 0;
  return row;
}

static int32_t make_edits(rl_edit* edits, int32_t vocabulary) {
  int32_t num_edits = uniform() < 0.5 ? 0 : below(MAX_EDITS + 1);
  for (int32_t i = 0; i < num_edits; i++) {
    edits[i] = (rl_edit){below(vocabulary), uniform() < 0.2 ? -INFINITY : (float)normal(), (float)(0.8 + 0.4 * uniform()), (float)normal()};
  }
  return num_edits;
}

static reference process(int32_t vocabulary, const uint32_t* row_mask, const rl_edit* edits, int32_t num_edits) {
  for (int32_t i = 0; i < vocabulary; i++) processed[i] = reference_logit(logits[i], i, row_mask);
  for (int32_t i = 0; i < num_edits; i++) processed[edits[i].token] = reference_edit(processed[edits[i].token], &edits[i]);
  reference r = {.left = candidates};
  for (int32_t i = 0; i < vocabulary; i++) {
    if (processed[i] > -INFINITY) candidates[r.count++] = (candidate){.token = i, .logit = processed[i]};
  }
  return r;
}

static void compare_survivors(const reference* r, int32_t vocabulary, const rl_sampling* row, const rl_sampled* sampled) {
  int32_t num_kept = 0, num_missing = 0;
  double worst = 0;
  for (int32_t i = 0; i < vocabulary; i++) num_kept += kept[i];
  for (int32_t i = 0; i < r->count; i++) {
    num_missing += !kept[r->left[i].token];
    double p = r->left[i].p;
    if (p > 1e-30) worst = fmax(worst, fabs((double)probabilities[r->left[i].token] - p) / p);
  }
  CHECK_VALUES(num_missing == 0 && num_kept == r->count,
               "V %d T %g sigma %g typical %g top_k %d top_p %g min_p %g xtc %g flags %u: %d kept, %d expected, %d of them missing",
               vocabulary, (double)row->temperature, (double)row->top_n_sigma, (double)row->typical_p, row->top_k, (double)row->top_p,
               (double)row->min_p, (double)row->xtc_probability, row->flags, num_kept, r->count, num_missing);
  CHECK_VALUES(worst < 1e-4, "probabilities are off by %g", worst);
  CHECK_VALUES(sampled->num_kept == r->count, "num_kept %d of %d", sampled->num_kept, r->count);
}

static double score_of(const candidate* of, double temperature, double best) {
  double v = ((double)words[of->token] + 0.5) / 4294967296.0;
  return ((double)of->logit - best) / temperature - log(-log1p(-v));
}

/* The token drawn has the best score of all survivors, up to float32's rounding. */
static void compare_draw(const reference* r, int32_t vocabulary, const rl_sampling* row, int32_t token) {
  rl_random_words(row->seed, row->position, words, vocabulary);
  double best = best_logit(r), best_score = -INFINITY, drawn_score = -INFINITY;
  for (int32_t i = 0; i < r->count; i++) {
    double score = score_of(&r->left[i], (double)row->temperature, best);
    best_score = fmax(best_score, score);
    if (r->left[i].token == token) drawn_score = score;
  }
  CHECK_VALUES(drawn_score > best_score - 1e-4, "token %d scores %g, best is %g", token, drawn_score, best_score);
}

static void compare_logprobs(const reference* all, const rl_sampled* sampled, const int32_t* tokens, const float* logprobs,
                             int32_t num_top) {
  reference r = *all;
  order_by_rank(&r);
  double best = best_logit(&r), mass = 0;
  for (int32_t i = 0; i < r.count; i++) mass += exp((double)r.left[i].logit - best);
  double expected = (double)processed[sampled->token] - best - log(mass);
  double found = (double)sampled->logprob;
  CHECK_VALUES(fabs(found - expected) <= 2e-6 * (1 + fabs(expected)), "logprob %g, expected %g", found, expected);
  for (int32_t i = 0; i < RL_TOP_LOGPROBS_MAX; i++) {
    bool is_written = i < num_top && i < r.count;
    int32_t token = is_written ? r.left[i].token : -1;
    double logprob = is_written ? (double)r.left[i].logit - best - log(mass) : 0;
    CHECK_VALUES(tokens[i] == token, "alternative %d of %d is %d, not %d", i, num_top, tokens[i], token);
    CHECK_VALUES(fabs((double)logprobs[i] - logprob) <= 2e-6 * (1 + fabs(logprob)), "logprob %d: %g", i, (double)logprobs[i]);
  }
}

static void compare_row(int32_t vocabulary) {
  make_logits(vocabulary);
  rl_sampling row = random_row();
  rl_edit edits[MAX_EDITS];
  row.edits_end = make_edits(edits, vocabulary);
  bool has_mask = uniform() < 0.2;
  for (int32_t i = 0; i < (vocabulary + 31) / 32; i++) mask[i] = (uint32_t)(uniform() * 4294967296.0);
  row.mask = has_mask ? 0 : -1;
  row.num_top_logprobs = below(22) - 1;
  reference r = process(vocabulary, has_mask ? mask : NULL, edits, row.edits_end);
  rl_sampled sampled;
  int32_t tokens[RL_TOP_LOGPROBS_MAX];
  float logprobs[RL_TOP_LOGPROBS_MAX];
  CHECK(rl_output_write(output, logits, 1, vocabulary, 0) == RL_OK);
  CHECK(rl_sample(output, &row, 1, edits, row.edits_end, mask, has_mask, &sampled, tokens, logprobs) == RL_OK);
  CHECK(rl_sample_distribution(output, 0, &row, edits, row.edits_end, mask, has_mask, kept, probabilities) == RL_OK);
  if (r.count == 0) {
    CHECK_VALUES(sampled.token == -1 && sampled.flags == RL_ROW_BROKEN, "broken row: token %d", sampled.token);
    return;
  }
  if (row.num_top_logprobs >= 0) compare_logprobs(&r, &sampled, tokens, logprobs, row.num_top_logprobs);
  reference_filters(&r, &row);
  num_rows_compared++;
  num_rows_close += r.is_close;
  if (r.is_close) return;
  compare_survivors(&r, vocabulary, &row, &sampled);
  if (row.temperature == 0) CHECK_VALUES(sampled.token == r.left[0].token, "greedy: %d, not %d", sampled.token, r.left[0].token);
  else compare_draw(&r, vocabulary, &row, sampled.token);
}

int main(void) {
  CHECK(rl_output_new(&output) == RL_OK);
  for (int i = 0; i < 6000; i++) compare_row(1 + below(i < 3000 ? 80 : 1500));
  for (int i = 0; i < 60; i++) compare_row(i % 2 == 0 ? 49152 : MAX_VOCABULARY);
  CHECK_VALUES(num_rows_close * 6 < num_rows_compared, "%d of %d rows were too close to call", num_rows_close, num_rows_compared);
  printf("%d rows compared, %d of them too close to call\n", num_rows_compared, num_rows_close);
  CHECK(rl_output_free(output) == RL_OK);
  return finish();
}
