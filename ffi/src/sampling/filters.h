/* The filters of one row, each on what the one before it left. The order is part of the interface:
 * top_n_sigma, p_less, typical_p, then by rank top_k, top_p, min_p, then XTC. */
#ifndef ROWLOCK_FILTERS_H
#define ROWLOCK_FILTERS_H

#include "rowlock.h"
#include "survivors.h"

/* Narrows `tokens` to what the row may draw: never to nothing. */
void apply_filters(survivors* tokens, const rl_sampling* sampling);

/* Keeps the `k` largest logits, equal ones by lower id. k >= 1. */
void keep_top_k(survivors* tokens, int32_t k);

/* 1 / temperature, kept normal so that -inf times it stays -inf. */
float inverse_of(float temperature);

#endif
