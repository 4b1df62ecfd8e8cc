/* Draws without the host: the device's stream samples a step's rows as soon as their logits are there, and the next forward goes on with them. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "output.h"
#include "sample_rows.h"

/* What the draws are made of: a copy, since the caller's arrays are its own again before they are read. Rows, edits and masks follow. */
typedef struct draw_params {
  int32_t num_rows, vocabulary, num_edits, num_masks;
  bool has_alternatives; /* some row asks for them */
  rl_sampling rows[];
} draw_params;

/* In the flags of the first row when there was no memory for the draws. */
enum { DRAWS_FAILED = 1 << 30 };

static rl_edit* edits_of(draw_params* p) { return (rl_edit*)(p->rows + p->num_rows); }
static uint32_t* masks_of(draw_params* p) { return (uint32_t*)(edits_of(p) + p->num_edits); }

static size_t mask_words(const draw_params* p) { return (size_t)p->num_masks * (((size_t)p->vocabulary + 31) / 32); }

static size_t params_bytes(const draw_params* p) {
  return sizeof *p + (size_t)p->num_rows * sizeof(rl_sampling) + (size_t)p->num_edits * sizeof(rl_edit) + mask_words(p) * sizeof(uint32_t);
}

/* A row that draws nothing goes on with token 0, until the host has seen that it is broken. */
static void draw_rows(const void* params, const host_tensor* logits, void* memory) {
  draw_params* p = (draw_params*)params;
  stream_draws draws = draws_at(memory, p->num_rows);
  const rows_call call = {
      .logits = logits->data,
      .num_rows = p->num_rows,
      .vocabulary = p->vocabulary,
      .rows = p->rows,
      .arrays = {edits_of(p), p->num_edits, masks_of(p), p->num_masks},
      .sampled = draws.sampled,
      .top_tokens = p->has_alternatives ? draws.top_tokens : NULL,
      .top_logprobs = p->has_alternatives ? draws.top_logprobs : NULL,
  };
  bool is_done = sample_rows(&call);
  for (int32_t i = 0; i < p->num_rows; i++) draws.tokens[i] = is_done && draws.sampled[i].token >= 0 ? draws.sampled[i].token : 0;
  if (!is_done) draws.sampled[0].flags = DRAWS_FAILED;
}

static int32_t validate_call(const rl_sampling* rows, int32_t num_rows, int32_t vocabulary, const sampling_arrays* arrays) {
  if (rows == NULL || num_rows < 1) return rl_fail(RL_ERR_ARGUMENT, "num_rows is %d, allowed 1 or more, with rows", num_rows);
  int32_t status = validate_arrays(arrays);
  for (int32_t row = 0; row < num_rows && status == RL_OK; row++) status = validate_sampling(&rows[row], row, vocabulary, arrays);
  return status;
}

int32_t rl_sample_start(rl_output* output, const rl_sampling* rows, int32_t num_rows, const rl_edit* edits, int32_t num_edits,
                        const uint32_t* masks, int32_t num_masks) {
  const sampling_arrays arrays = {.edits = edits, .num_edits = num_edits, .masks = masks, .num_masks = num_masks};
  draw_params sizes = {num_rows, output_vocabulary(output), num_edits, num_masks, false};
  int32_t status = validate_call(rows, num_rows, sizes.vocabulary, &arrays);
  if (status != RL_OK) return status;
  draw_params* p = malloc(params_bytes(&sizes));
  if (p == NULL) return rl_fail(RL_ERR_MEMORY, "no memory for the sampling of %d rows", num_rows);
  *p = sizes;
  for (int32_t row = 0; row < num_rows; row++) p->has_alternatives |= rows[row].num_top_logprobs > 0;
  memcpy(p->rows, rows, (size_t)num_rows * sizeof *rows);
  if (num_edits > 0) memcpy(edits_of(p), edits, (size_t)num_edits * sizeof *edits);
  if (num_masks > 0) memcpy(masks_of(p), masks, mask_words(p) * sizeof *masks);
  status = output_start_draws(output, draw_rows, p, params_bytes(p), num_rows);
  free(p);
  return status;
}

int32_t rl_sample_finish(rl_output* output, rl_sampled* sampled, int32_t num_rows, int32_t* top_tokens, float* top_logprobs) {
  stream_draws draws;
  int32_t num_drawn = 0, status = output_finish_draws(output, &draws, &num_drawn);
  if (status != RL_OK) return status;
  if (sampled == NULL || num_rows != num_drawn)
    return rl_fail(RL_ERR_ARGUMENT, "num_rows is %d, allowed %d, with room for them: the draws of the output", num_rows, num_drawn);
  if (draws.sampled[0].flags & DRAWS_FAILED) return rl_fail(RL_ERR_MEMORY, "no memory to sample %d rows", num_rows);
  size_t count = (size_t)num_rows, num_alternatives = count * RL_TOP_LOGPROBS_MAX;
  memcpy(sampled, draws.sampled, count * sizeof *sampled);
  if (top_tokens != NULL) memcpy(top_tokens, draws.top_tokens, num_alternatives * sizeof *top_tokens);
  if (top_logprobs != NULL) memcpy(top_logprobs, draws.top_logprobs, num_alternatives * sizeof *top_logprobs);
  return RL_OK;
}
