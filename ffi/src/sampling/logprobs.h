/* What a row reports besides its token: log-probabilities of the processed logits, before temperature and filters. */
#ifndef ROWLOCK_LOGPROBS_H
#define ROWLOCK_LOGPROBS_H

#include "row_logits.h"

/* Returns the logprob of `token` and writes the `num_top` most likely tokens, most likely first, equal ones by lower id. Entries
 * that do not exist (fewer tokens are above -inf) are left as they are. */
float report_logprobs(const row_logits* row, int32_t token, int32_t num_top, int32_t* top_tokens, float* top_logprobs,
                      sampler_scratch* scratch);

#endif
