/* The sampler's definition, in double precision with full sorts: slow, short and without any of the shortcuts that the sampler takes. */
#ifndef ROWLOCK_SAMPLER_REFERENCE_H
#define ROWLOCK_SAMPLER_REFERENCE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "rowlock.h"

typedef struct candidate {
  int32_t token;
  float logit;
  double key; /* what sort_candidates orders by, then the token */
  double p;
} candidate;

typedef struct reference {
  candidate* left; /* survivors, in no particular order */
  int32_t count;
  bool is_close; /* a threshold was met within float32's precision: either side is right */
} reference;

static int compare_candidates(const void* left, const void* right) {
  const candidate *a = left, *b = right;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->token < b->token ? -1 : 1;
}

static void sort_candidates(reference* r) {
  qsort(r->left, (size_t)r->count, sizeof *r->left, compare_candidates);
}

static double best_logit(const reference* r) {
  double best = -INFINITY;
  for (int32_t i = 0; i < r->count; i++) best = fmax(best, (double)r->left[i].logit);
  return best;
}

static void softmax(reference* r, double temperature) {
  double best = best_logit(r), mass = 0;
  for (int32_t i = 0; i < r->count; i++) mass += r->left[i].p = exp(((double)r->left[i].logit - best) / temperature);
  for (int32_t i = 0; i < r->count; i++) r->left[i].p /= mass;
}

static void keep_if_at_least(reference* r, double threshold, double margin, bool by_logit) {
  int32_t num_kept = 0;
  for (int32_t i = 0; i < r->count; i++) {
    double value = by_logit ? (double)r->left[i].logit : r->left[i].p;
    if (fabs(value - threshold) <= margin) r->is_close = true;
    if (value >= threshold) r->left[num_kept++] = r->left[i];
  }
  r->count = num_kept;
}

/* Keeps the shortest prefix of the sorted candidates whose mass reaches the target, at least one. */
static void keep_mass(reference* r, double target) {
  sort_candidates(r);
  double mass = 0;
  int32_t num_kept = 0;
  while (num_kept < r->count && (num_kept == 0 || mass < target)) mass += r->left[num_kept++].p;
  double without_last = mass - r->left[num_kept - 1].p;
  const double margin = 1e-6;
  if (fabs(mass - target) < margin || (num_kept > 1 && fabs(without_last - target) < margin)) r->is_close = true;
  r->count = num_kept;
}

static void reference_top_n_sigma(reference* r, double n) {
  double mean = 0, variance = 0;
  for (int32_t i = 0; i < r->count; i++) mean += (double)r->left[i].logit / r->count;
  for (int32_t i = 0; i < r->count; i++) variance += pow((double)r->left[i].logit - mean, 2) / r->count;
  double deviation = sqrt(variance);
  keep_if_at_least(r, best_logit(r) - n * deviation, 1e-9 * deviation, true);
}

static void reference_p_less(reference* r, double temperature) {
  double collision = 0;
  softmax(r, temperature);
  for (int32_t i = 0; i < r->count; i++) collision += r->left[i].p * r->left[i].p;
  keep_if_at_least(r, collision, 1e-5 * collision, false);
}

static void reference_typical_p(reference* r, double typical_p) {
  double entropy = 0;
  softmax(r, 1);
  double best = best_logit(r), mass = 0;
  for (int32_t i = 0; i < r->count; i++) mass += exp((double)r->left[i].logit - best);
  for (int32_t i = 0; i < r->count; i++) entropy += r->left[i].p * (log(mass) - ((double)r->left[i].logit - best));
  for (int32_t i = 0; i < r->count; i++) {
    double surprise = log(mass) - ((double)r->left[i].logit - best);
    r->left[i].key = fabs(surprise - entropy);
  }
  sort_candidates(r);
  candidate* sorted = r->left;
  int32_t count = r->count;
  keep_mass(r, typical_p);
  /* Two keys that float32 cannot tell apart, on either side of the cut. */
  if (r->count < count && sorted[r->count].key - sorted[r->count - 1].key < 1e-5 * (1 + sorted[r->count].key)) {
    if (sorted[r->count].logit != sorted[r->count - 1].logit) r->is_close = true;
  }
}

static void order_by_rank(reference* r) {
  for (int32_t i = 0; i < r->count; i++) r->left[i].key = -(double)r->left[i].logit;
  sort_candidates(r);
}

static void reference_xtc(reference* r, double threshold, double temperature) {
  softmax(r, temperature);
  order_by_rank(r);
  int32_t num_above = 0;
  for (int32_t i = 0; i < r->count; i++) {
    if (fabs(r->left[i].p - threshold) < 1e-5 * threshold) r->is_close = true;
    num_above += r->left[i].p >= threshold;
  }
  int32_t num_removed = num_above > 1 ? num_above - 1 : 0;
  r->left += num_removed;
  r->count -= num_removed;
}

/* Filters a row whose logits are processed already; an XTC coin counts as won. */
static void reference_filters(reference* r, const rl_sampling* sampling) {
  double temperature = (double)sampling->temperature;
  if (temperature < 1e-5) {
    order_by_rank(r);
    r->count = 1;
    r->left[0].p = 1;
    return;
  }
  if (sampling->top_n_sigma > 0) reference_top_n_sigma(r, (double)sampling->top_n_sigma);
  if (sampling->flags & RL_P_LESS) reference_p_less(r, temperature);
  if (sampling->typical_p < 1) reference_typical_p(r, (double)sampling->typical_p);
  double rank_temperature = sampling->flags & RL_TEMPERATURE_LAST ? 1 : temperature;
  order_by_rank(r);
  if (sampling->top_k > 0 && sampling->top_k < r->count) r->count = sampling->top_k;
  softmax(r, rank_temperature);
  if (sampling->top_p < 1) keep_mass(r, (double)sampling->top_p);
  softmax(r, rank_temperature);
  double least = (double)sampling->min_p * r->left[0].p;
  if (sampling->min_p > 0) keep_if_at_least(r, least, sampling->min_p < 1 ? 1e-5 * least : 0, false);
  if (sampling->xtc_probability > 0) reference_xtc(r, (double)sampling->xtc_threshold, rank_temperature);
  softmax(r, temperature);
}

/* The processed logit of one token, edits not included. */
static float reference_logit(float logit, int32_t token, const uint32_t* mask) {
  bool is_allowed = mask == NULL || (mask[token / 32] >> (token % 32) & 1) != 0;
  if (!is_allowed || isnan(logit)) return -INFINITY;
  return logit > FLT_MAX ? FLT_MAX : logit;
}

static float reference_edit(float logit, const rl_edit* edit) {
  double z = (double)logit + (double)edit->bias;
  z = (z < 0 ? z * (double)edit->repetition : z / (double)edit->repetition) - (double)edit->subtract;
  return z == -INFINITY ? -INFINITY : (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, z));
}

#endif
