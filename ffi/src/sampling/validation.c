#include "validation.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"

int32_t validate_arrays(const sampling_arrays* arrays) {
  if (arrays->num_edits < 0) return rl_fail(RL_ERR_ARGUMENT, "num_edits is %d, allowed 0 or more", arrays->num_edits);
  if (arrays->num_masks < 0) return rl_fail(RL_ERR_ARGUMENT, "num_masks is %d, allowed 0 or more", arrays->num_masks);
  if (arrays->edits == NULL && arrays->num_edits > 0) return rl_fail(RL_ERR_ARGUMENT, "edits is NULL, num_edits is %d", arrays->num_edits);
  if (arrays->masks == NULL && arrays->num_masks > 0) return rl_fail(RL_ERR_ARGUMENT, "masks is NULL, num_masks is %d", arrays->num_masks);
  return RL_OK;
}

typedef struct float_range {
  const char* name;
  float value, least, most;
} float_range;

static int32_t validate_floats(const rl_sampling* sampling, int32_t row) {
  const float_range ranges[] = {
      {"temperature", sampling->temperature, 0, FLT_MAX},
      {"top_p", sampling->top_p, 0, 1},
      {"min_p", sampling->min_p, 0, 1},
      {"top_n_sigma", sampling->top_n_sigma, 0, FLT_MAX},
      {"typical_p", sampling->typical_p, 0, 1},
      {"xtc_probability", sampling->xtc_probability, 0, 1},
      {"xtc_threshold", sampling->xtc_threshold, 0, 1},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    const float_range* range = &ranges[i];
    if (range->value >= range->least && range->value <= range->most) continue; /* false for NaN */
    return rl_fail(RL_ERR_ARGUMENT, "row %d: %s is %g, allowed %g to %g", row, range->name, (double)range->value, (double)range->least,
                   (double)range->most);
  }
  return RL_OK;
}

static int32_t validate_edit(const rl_edit* edit, int32_t row, int32_t index, int32_t vocabulary) {
  if (edit->token < 0 || edit->token >= vocabulary) {
    return rl_fail(RL_ERR_ARGUMENT, "row %d: edit %d: token is %d, allowed 0 to %d", row, index, edit->token, vocabulary - 1);
  }
  bool is_bias = edit->bias == -INFINITY || isfinite(edit->bias);
  if (!is_bias) return rl_fail(RL_ERR_ARGUMENT, "row %d: edit %d: bias is %g, allowed -inf or finite", row, index, (double)edit->bias);
  if (!(edit->repetition > 0 && edit->repetition <= FLT_MAX)) {
    return rl_fail(RL_ERR_ARGUMENT, "row %d: edit %d: repetition is %g, allowed above 0 and finite", row, index, (double)edit->repetition);
  }
  if (!isfinite(edit->subtract)) {
    return rl_fail(RL_ERR_ARGUMENT, "row %d: edit %d: subtract is %g, allowed finite", row, index, (double)edit->subtract);
  }
  return RL_OK;
}

int32_t validate_sampling(const rl_sampling* sampling, int32_t row, int32_t vocabulary, const sampling_arrays* arrays) {
  int32_t status = validate_floats(sampling, row);
  if (status != RL_OK) return status;
  const uint32_t known = RL_P_LESS | RL_TEMPERATURE_LAST;
  if (sampling->flags & ~known) return rl_fail(RL_ERR_ARGUMENT, "row %d: flags is %u, allowed bits %u", row, sampling->flags, known);
  if (sampling->top_k < 0) return rl_fail(RL_ERR_ARGUMENT, "row %d: top_k is %d, allowed 0 or more", row, sampling->top_k);
  if (sampling->num_top_logprobs < -1 || sampling->num_top_logprobs > RL_TOP_LOGPROBS_MAX) {
    return rl_fail(RL_ERR_ARGUMENT, "row %d: num_top_logprobs is %d, allowed -1 to %d", row, sampling->num_top_logprobs,
                   RL_TOP_LOGPROBS_MAX);
  }
  if (sampling->mask < -1 || sampling->mask >= arrays->num_masks) {
    return rl_fail(RL_ERR_ARGUMENT, "row %d: mask is %d, allowed -1 to %d", row, sampling->mask, arrays->num_masks - 1);
  }
  int32_t begin = sampling->edits_begin, end = sampling->edits_end;
  if (begin < 0 || end < begin || end > arrays->num_edits) {
    return rl_fail(RL_ERR_ARGUMENT, "row %d: edits are %d to %d, allowed 0 to %d, ascending", row, begin, end, arrays->num_edits);
  }
  for (int32_t i = begin; i < end; i++) {
    status = validate_edit(&arrays->edits[i], row, i, vocabulary);
    if (status != RL_OK) return status;
  }
  return RL_OK;
}
