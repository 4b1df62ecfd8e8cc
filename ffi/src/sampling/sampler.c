/* Row sampling over the host's float32 logits: each row with its own configuration, nothing shared but the scratch memory of a thread. Many rows
 * are shared among the workers.
 *
 * Order of one row: bias, mask and penalties; greedy rows take the best token, lowest id first; else top_n_sigma, p_less, typical_p, each
 * on the survivors of the one before; temperature; top_k, top_p, min_p, XTC by rank; the draw. With RL_TEMPERATURE_LAST the filters by rank
 * look at the distribution before temperature. A row does only what it asks for; every pass over a whole row is vectorized.
 */
#include <stdatomic.h>
#include <string.h>

#include "draw.h"
#include "error.h"
#include "filters.h"
#include "logprobs.h"
#include "output.h"
#include "sample_rows.h"
#include "../cpu/workers.h"

/* Fewer rows are not worth the workers' attention. */
enum { MIN_SHARED_ROWS = 4, MAX_PARTS = 1024 };

#define GREEDY_BELOW 1e-5f

typedef struct sampling_call {
  const float* logits; /* [rows, vocabulary] */
  int32_t num_rows;
  int32_t vocabulary;
  sampling_arrays arrays;
  sampler_scratch* scratch;
} sampling_call;

static bool is_greedy(const rl_sampling* sampling) {
  return sampling->temperature < GREEDY_BELOW;
}

static row_logits processed_row(const sampling_call* call, int32_t row, const rl_sampling* sampling) {
  const sampling_arrays* arrays = &call->arrays;
  size_t mask_words = ((size_t)call->vocabulary + 31) / 32;
  const uint32_t* mask = sampling->mask < 0 ? NULL : arrays->masks + (size_t)sampling->mask * mask_words;
  int32_t num_edits = sampling->edits_end - sampling->edits_begin;
  const rl_edit* edits = num_edits == 0 ? NULL : arrays->edits + sampling->edits_begin;
  return row_logits_of(call->logits + (size_t)row * (size_t)call->vocabulary, call->vocabulary, mask, edits, num_edits, call->scratch);
}

static const rl_sampled BROKEN = {.token = -1, .logprob = 0, .flags = RL_ROW_BROKEN, .num_kept = 0};

/* A greedy row that nothing changes and nobody looks into: one pass over its logits. */
static bool is_bare_argmax(const rl_sampling* sampling) {
  return is_greedy(sampling) && sampling->mask < 0 && sampling->edits_begin == sampling->edits_end && sampling->num_top_logprobs < 0;
}

static rl_sampled sample_bare(const sampling_call* call, int32_t row) {
  int32_t token = best_token_of(call->logits + (size_t)row * (size_t)call->vocabulary, call->vocabulary);
  return token < 0 ? BROKEN : (rl_sampled){.token = token, .num_kept = 1};
}

static rl_sampled choose(const row_logits* row, const rl_sampling* sampling, sampler_scratch* scratch) {
  if (is_greedy(sampling)) return (rl_sampled){.token = best_token_of(row->values, row->vocabulary), .num_kept = 1};
  survivors tokens = survivors_of_row(row, scratch);
  apply_filters(&tokens, sampling);
  stream_key key = stream_key_of(sampling->seed, sampling->position, STREAM_DRAW);
  return (rl_sampled){
      .token = draw_token(&tokens, inverse_of(sampling->temperature), key),
      .num_kept = tokens.ids == NULL ? row->num_finite : tokens.count,
  };
}

static rl_sampled sample_row(const sampling_call* call, int32_t row, const rl_sampling* sampling, int32_t* top_tokens,
                             float* top_logprobs) {
  if (is_bare_argmax(sampling)) return sample_bare(call, row);
  row_logits logits = processed_row(call, row, sampling);
  if (logits.num_finite == 0) return BROKEN;
  rl_sampled sampled = choose(&logits, sampling, call->scratch);
  if (sampling->num_top_logprobs >= 0) {
    sampled.logprob = report_logprobs(&logits, sampled.token, sampling->num_top_logprobs, top_tokens, top_logprobs, call->scratch);
  }
  return sampled;
}

/* Waits for the logits and finds the memory. */
static int32_t open_call(rl_output* output, const sampling_arrays* arrays, sampling_call* call) {
  if (output == NULL) return rl_fail(RL_ERR_ARGUMENT, "output is NULL");
  int32_t status = validate_arrays(arrays);
  if (status != RL_OK) return status;
  *call = (sampling_call){.arrays = *arrays};
  status = output_logits(output, &call->logits, &call->num_rows, &call->vocabulary);
  if (status != RL_OK) return status;
  call->scratch = scratch_of_thread(call->vocabulary);
  if (call->scratch == NULL) return rl_fail(RL_ERR_MEMORY, "no memory to sample from %d tokens", call->vocabulary);
  return RL_OK;
}

static int32_t validate_rows(const sampling_call* call, const rl_sampling* rows, int32_t num_rows, const rl_sampled* sampled,
                             const int32_t* top_tokens, const float* top_logprobs) {
  if (num_rows != call->num_rows) {
    return rl_fail(RL_ERR_ARGUMENT, "num_rows is %d, allowed %d: the logits rows of the output", num_rows, call->num_rows);
  }
  if (num_rows == 0) return RL_OK;
  if (rows == NULL) return rl_fail(RL_ERR_ARGUMENT, "rows is NULL, num_rows is %d", num_rows);
  if (sampled == NULL) return rl_fail(RL_ERR_ARGUMENT, "sampled is NULL, num_rows is %d", num_rows);
  for (int32_t row = 0; row < num_rows; row++) {
    int32_t status = validate_sampling(&rows[row], row, call->vocabulary, &call->arrays);
    if (status != RL_OK) return status;
    if (rows[row].num_top_logprobs <= 0 || (top_tokens != NULL && top_logprobs != NULL)) continue;
    return rl_fail(RL_ERR_ARGUMENT, "row %d: num_top_logprobs is %d, but %s is NULL", row, rows[row].num_top_logprobs,
                   top_tokens == NULL ? "top_tokens" : "top_logprobs");
  }
  return RL_OK;
}

typedef struct rows_job {
  const rows_call* call;
  atomic_bool has_failed;
} rows_job;

static void sample_part(void* work, int index, int count) {
  rows_job* job = work;
  const rows_call* r = job->call;
  sampling_call call = {.logits = r->logits, .num_rows = r->num_rows, .vocabulary = r->vocabulary, .arrays = r->arrays};
  call.scratch = scratch_of_thread(call.vocabulary);
  if (call.scratch == NULL) {
    atomic_store(&job->has_failed, true);
    return;
  }
  int32_t first = (int32_t)((int64_t)call.num_rows * index / count), last = (int32_t)((int64_t)call.num_rows * (index + 1) / count);
  for (int32_t row = first; row < last; row++) {
    size_t begin = (size_t)row * RL_TOP_LOGPROBS_MAX;
    int32_t* row_tokens = r->top_tokens == NULL ? NULL : r->top_tokens + begin;
    float* row_logprobs = r->top_logprobs == NULL ? NULL : r->top_logprobs + begin;
    for (int32_t i = 0; i < RL_TOP_LOGPROBS_MAX && row_tokens != NULL; i++) row_tokens[i] = -1;
    for (int32_t i = 0; i < RL_TOP_LOGPROBS_MAX && row_logprobs != NULL; i++) row_logprobs[i] = 0;
    r->sampled[row] = sample_row(&call, row, &r->rows[row], row_tokens, row_logprobs);
  }
}

bool sample_rows(const rows_call* call) {
  rows_job job = {.call = call};
  if (call->num_rows < MIN_SHARED_ROWS) sample_part(&job, 0, 1);
  else workers_run(sample_part, &job, call->num_rows < MAX_PARTS ? call->num_rows : MAX_PARTS);
  return !atomic_load(&job.has_failed);
}

int32_t rl_sample(rl_output* output, const rl_sampling* rows, int32_t num_rows, const rl_edit* edits, int32_t num_edits,
                  const uint32_t* masks, int32_t num_masks, rl_sampled* sampled, int32_t* top_tokens, float* top_logprobs) {
  const sampling_arrays arrays = {.edits = edits, .num_edits = num_edits, .masks = masks, .num_masks = num_masks};
  sampling_call call;
  int32_t status = open_call(output, &arrays, &call);
  if (status == RL_OK) status = validate_rows(&call, rows, num_rows, sampled, top_tokens, top_logprobs);
  if (status != RL_OK) return status;
  const rows_call all = {call.logits, num_rows, call.vocabulary, rows, arrays, sampled, top_tokens, top_logprobs};
  return sample_rows(&all) ? RL_OK : rl_fail(RL_ERR_MEMORY, "no memory to sample from %d tokens", call.vocabulary);
}

/* The law of the draw over the survivors. */
static void write_distribution(const survivors* tokens, float inverse_temperature, uint8_t* kept, float* probabilities) {
  float* weights = tokens->scratch->weights;
  double mass = mass_of(tokens, inverse_temperature, weights);
  for (int32_t i = 0; i < tokens->count; i++) {
    if (tokens->logits[i] == -INFINITY) continue;
    int32_t token = tokens->ids == NULL ? i : tokens->ids[i];
    if (kept != NULL) kept[token] = 1;
    if (probabilities != NULL) probabilities[token] = (float)((double)weights[i] / mass);
  }
}

int32_t rl_sample_distribution(rl_output* output, int32_t row, const rl_sampling* sampling, const rl_edit* edits, int32_t num_edits,
                               const uint32_t* masks, int32_t num_masks, uint8_t* kept, float* probabilities) {
  const sampling_arrays arrays = {.edits = edits, .num_edits = num_edits, .masks = masks, .num_masks = num_masks};
  sampling_call call;
  int32_t status = open_call(output, &arrays, &call);
  if (status != RL_OK) return status;
  if (row < 0 || row >= call.num_rows) return rl_fail(RL_ERR_ARGUMENT, "row is %d, allowed 0 to %d", row, call.num_rows - 1);
  if (sampling == NULL) return rl_fail(RL_ERR_ARGUMENT, "sampling is NULL");
  status = validate_sampling(sampling, row, call.vocabulary, &arrays);
  if (status != RL_OK) return status;
  if (kept != NULL) memset(kept, 0, (size_t)call.vocabulary * sizeof *kept);
  for (int32_t i = 0; i < call.vocabulary && probabilities != NULL; i++) probabilities[i] = 0;
  row_logits logits = processed_row(&call, row, sampling);
  if (logits.num_finite == 0) return RL_OK; /* a broken row has no law */
  survivors tokens = survivors_of_row(&logits, call.scratch);
  if (is_greedy(sampling)) {
    keep_top_k(&tokens, 1);
  } else {
    apply_filters(&tokens, sampling);
  }
  write_distribution(&tokens, is_greedy(sampling) ? 1.0f : inverse_of(sampling->temperature), kept, probabilities);
  return RL_OK;
}
