#include "logprobs.h"

#include "filters.h"
#include "survivors.h"

static float logprob_of(const survivors* row, float logit, double log_mass) {
  return (float)((double)logit - (double)row->best - log_mass);
}

/* Insertion sort of at most RL_TOP_LOGPROBS_MAX tokens that come in ascending order of ids: stable, so that ties stay in that order. */
static int32_t insert_descending(const survivors* top, int32_t* tokens, float* logits) {
  for (int32_t i = 0; i < top->count; i++) {
    float logit = top->logits[i];
    int32_t place = i;
    for (; place > 0 && logits[place - 1] < logit; place--) {
      logits[place] = logits[place - 1];
      tokens[place] = tokens[place - 1];
    }
    logits[place] = logit;
    tokens[place] = top->ids[i];
  }
  return top->count;
}

float report_logprobs(const row_logits* row, int32_t token, int32_t num_top, int32_t* top_tokens, float* top_logprobs,
                      sampler_scratch* scratch) {
  const survivors all = survivors_of_row(row, scratch);
  double log_mass = log(mass_of(&all, 1.0f, NULL));
  if (num_top > 0) {
    survivors top = all;
    keep_top_k(&top, num_top);
    if (top.ids == NULL) keep_from(&top, -INFINITY);
    int32_t num_written = insert_descending(&top, top_tokens, top_logprobs);
    for (int32_t i = 0; i < num_written; i++) top_logprobs[i] = logprob_of(&all, top_logprobs[i], log_mass);
  }
  return logprob_of(&all, row->values[token], log_mass);
}
