#include "selection.h"

#include <float.h>
#include <math.h>

#include "simd.h"

enum { DIGIT_BITS = 8, NUM_DIGITS = 256 };

typedef struct items {
  const float* keys;
  const float* weights;
} items;

static double weight_of(const items* of, int32_t index) {
  return of->weights == NULL ? 1.0 : (double)of->weights[index];
}

/* Unsigned integers in the order of the floats; both zeros are one. */
static uint32_t ordered_bits(float key) {
  float canonical = key + 0.0f;
  uint32_t bits;
  memcpy(&bits, &canonical, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The first bucket in which the running total reaches the target, else the last that has any weight. `target` becomes what is left. */
static int32_t crossing_bucket(const double* buckets, int32_t num_buckets, double* target) {
  double total = 0, total_before = 0;
  int32_t last = 0;
  for (int32_t i = 0; i < num_buckets; i++) {
    if (buckets[i] <= 0) continue;
    last = i;
    total_before = total;
    total += buckets[i];
    if (total >= *target) break;
  }
  *target -= total_before;
  return last;
}

static void range_of(const float* keys, int32_t count, float* smallest, float* largest) {
  f32x8 low = splat_f32(INFINITY), high = splat_f32(-INFINITY);
  int32_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    low = min_f32(load_f32(keys + i), low);
    high = max_f32(load_f32(keys + i), high);
  }
  *smallest = smallest_f32(low);
  *largest = largest_f32(high);
  for (; i < count; i++) {
    if (keys[i] < *smallest) *smallest = keys[i];
    if (keys[i] > *largest) *largest = keys[i];
  }
}

static int32_t linear_bucket(float key, float smallest, float scale) {
  int32_t bucket = (int32_t)((key - smallest) * scale);
  return bucket < NUM_BUCKETS ? bucket : NUM_BUCKETS - 1;
}

/* First step: equal slices of the keys' range. Spreads logits better than their leading bits do, which bunch up around zero.
 * Lists the crossing slice's items in `members`. */
static int32_t members_by_slice(const items* of, int32_t count, double* target, sampler_scratch* scratch) {
  float smallest, largest;
  range_of(of->keys, count, &smallest, &largest);
  float scale = (float)NUM_BUCKETS / (largest - smallest);
  if (!(scale >= FLT_MIN && scale <= FLT_MAX)) scale = 0; /* no range, or one that overflows */
  if (scale == 0 || count < NUM_BUCKETS / 8) { /* few items: the digits alone are quicker */
    for (int32_t i = 0; i < count; i++) scratch->members[i] = i;
    return count;
  }
  memset(scratch->buckets, 0, sizeof scratch->buckets);
  for (int32_t i = 0; i < count; i++) scratch->buckets[linear_bucket(of->keys[i], smallest, scale)] += weight_of(of, i);
  int32_t crossing = crossing_bucket(scratch->buckets, NUM_BUCKETS, target);
  int32_t num_members = 0;
  for (int32_t i = 0; i < count; i++) {
    scratch->members[num_members] = i;
    num_members += linear_bucket(of->keys[i], smallest, scale) == crossing;
  }
  return num_members;
}

/* Keeps the members whose digit at `shift` is the one where the target is crossed. */
static int32_t members_by_digit(const items* of, int32_t num_members, int shift, double* target, sampler_scratch* scratch) {
  memset(scratch->buckets, 0, NUM_DIGITS * sizeof *scratch->buckets);
  for (int32_t i = 0; i < num_members; i++) {
    int32_t index = scratch->members[i];
    scratch->buckets[(ordered_bits(of->keys[index]) >> shift) & (NUM_DIGITS - 1)] += weight_of(of, index);
  }
  uint32_t crossing = (uint32_t)crossing_bucket(scratch->buckets, NUM_DIGITS, target);
  int32_t num_left = 0;
  for (int32_t i = 0; i < num_members; i++) {
    int32_t index = scratch->members[i];
    scratch->members[num_left] = index;
    num_left += ((ordered_bits(of->keys[index]) >> shift) & (NUM_DIGITS - 1)) == crossing;
  }
  return num_left;
}

selection_cut select_prefix(const float* keys, const float* weights, int32_t count, double target, sampler_scratch* scratch) {
  const items of = {keys, weights};
  int32_t num_members = members_by_slice(&of, count, &target, scratch);
  for (int shift = 32 - DIGIT_BITS; shift >= 0 && num_members > 1; shift -= DIGIT_BITS) {
    num_members = members_by_digit(&of, num_members, shift, &target, scratch);
  }
  /* What is left has one key: the order of the indices decides. */
  selection_cut cut = {.key = keys[scratch->members[0]], .num_equal = 0};
  double total = 0;
  do {
    total += weight_of(&of, scratch->members[cut.num_equal]);
    cut.num_equal++;
  } while (cut.num_equal < num_members && total < target);
  return cut;
}
