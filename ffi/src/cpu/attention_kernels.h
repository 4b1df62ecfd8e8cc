/* Attention of one group of queries for one vector width: a query in each lane. Included once per instruction set, with NAME(x), TARGET and
 * LANES defined. Keys and values are read as they lie and broadcast, so there is nothing to transpose and no lanes to add up; every sum
 * runs in the order of features, or of keys. */
typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

TARGET static inline NAME(vector) NAME(load_lanes)(const float* p) { return *(const NAME(vector)*)p; }

/* The queries, scaled: [head dim][lanes]. Lanes without a query hold zeros. */
TARGET static void NAME(load_queries)(const call* c, const query_group* g, NAME(vector)* queries) {
  memset(queries, 0, (size_t)c->head_dim * sizeof *queries);
  for (int t = 0; t < g->num_tokens; t++)
    for (int h = 0; h < g->num_heads; h++) {
      const float* q = (const float*)c->q->data + (g->first_token + t) * c->q->strides[0] + (g->first_head + h) * c->q->strides[1];
      for (int d = 0; d < c->head_dim; d++) queries[d][t * g->num_heads + h] = q[d] * c->params.scale;
    }
}

/* The positions that each lane sees: first and last. Lanes without a query see what the last token sees. */
TARGET static void NAME(load_ranges)(const call* c, const query_group* g, NAME(ints)* first, NAME(ints)* last) {
  for (int lane = 0; lane < LANES; lane++) {
    int t = lane / g->num_heads, token = g->first_token + (t < g->num_tokens ? t : g->num_tokens - 1);
    int from = c->params.window > 0 ? c->window_from[token] - c->params.window + 1 : 0;
    (*first)[lane] = from > 0 ? from : 0;
    (*last)[lane] = c->last_seen[token];
  }
}

TARGET static inline NAME(vector) NAME(select)(NAME(ints) mask, NAME(vector) a, NAME(vector) b) {
  return (NAME(vector))(((NAME(ints))a & mask) | ((NAME(ints))b & ~mask));
}

/* scores[i] = queries · keys[i] for `count` keys. */
TARGET static void NAME(score)(const NAME(vector)* queries, const float* keys, int head_dim, int count, NAME(vector)* scores) {
  int i = 0;
  for (; i + 8 <= count; i += 8) {
    NAME(vector) sums[8] = {{0}};
    const float* key = keys + (size_t)i * (size_t)head_dim;
    for (int d = 0; d < 8 * head_dim; d += LINE_FLOATS) __builtin_prefetch(key + PREFETCHED_KEYS * head_dim + d);
    for (int d = 0; d < head_dim; d++)
      for (int j = 0; j < 8; j++) sums[j] += queries[d] * key[(size_t)j * (size_t)head_dim + (size_t)d];
    memcpy(&scores[i], sums, sizeof sums);
  }
  for (; i < count; i++) {
    NAME(vector) sum = {0};
    for (int d = 0; d < head_dim; d++) sum += queries[d] * keys[(size_t)i * (size_t)head_dim + (size_t)d];
    scores[i] = sum;
  }
}

/* result[d] += sum over i of weights[i] * values[i][d]. */
TARGET static void NAME(weigh)(const NAME(vector)* weights, const float* values, int head_dim, int count, NAME(vector)* result) {
  int d = 0;
  for (; d + 16 <= head_dim; d += 16) {
    NAME(vector) sums[16];
    memcpy(sums, &result[d], sizeof sums);
    const float* value = values + d;
    for (int i = 0; i < count; i++, value += head_dim) {
      __builtin_prefetch(value + PREFETCHED_KEYS * head_dim);
      for (int j = 0; j < 16; j++) sums[j] += weights[i] * value[j];
    }
    memcpy(&result[d], sums, sizeof sums);
  }
  for (; d < head_dim; d++) {
    NAME(vector) sum = result[d];
    for (int i = 0; i < count; i++) sum += weights[i] * values[(size_t)i * (size_t)head_dim + (size_t)d];
    result[d] = sum;
  }
}

/* Scores of keys that a lane does not see become -inf. */
TARGET static void NAME(mask_scores)(NAME(vector)* scores, int start, int count, NAME(ints) first, NAME(ints) last) {
  NAME(vector) nothing = (NAME(vector)){0} - INFINITY;
  for (int i = 0; i < count; i++) {
    NAME(ints) key = (NAME(ints)){0} + (start + i);
    scores[i] = NAME(select)((NAME(ints))(key >= first) & (NAME(ints))(key <= last), scores[i], nothing);
  }
}

/* One block of keys: scores to weights relative to the new maximum; the sums so far are scaled to it. Weights are added up in as many sums as
 * there are lanes, by their key, because the few queries of a decoding row have their keys in lanes. */
TARGET static void NAME(take_block)(NAME(vector)* scores, int count, NAME(vector)* maximum, NAME(vector)* total, NAME(vector)* result,
                                    int head_dim) {
  NAME(vector) most = *maximum;
  for (int i = 0; i < count; i++) most = NAME(select)((NAME(ints))(scores[i] > most), scores[i], most);
  /* Where nothing has been seen yet, weights relative to 0 are all 0. */
  NAME(vector) base = NAME(select)((NAME(ints))(most > -INFINITY), most, (NAME(vector)){0}), rescale, weight, sums[LANES] = {{0}};
  VECTOR_EXP(NAME(vector), NAME(ints), *maximum - base, rescale);
  for (int i = 0; i < count; i++) {
    VECTOR_EXP(NAME(vector), NAME(ints), scores[i] - base, weight);
    scores[i] = weight;
    sums[i % LANES] += weight;
  }
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  *total = *total * rescale + sums[0];
  for (int d = 0; d < head_dim; d++) result[d] *= rescale;
  *maximum = most;
}

TARGET static void NAME(store)(const call* c, const query_group* g, const NAME(vector)* result, NAME(vector) total) {
  for (int t = 0; t < g->num_tokens; t++)
    for (int h = 0; h < g->num_heads; h++) {
      int lane = t * g->num_heads + h;
      float *y = c->output + ((size_t)(g->first_token + t) * (size_t)c->num_heads + (size_t)(g->first_head + h)) * (size_t)c->head_dim;
      for (int d = 0; d < c->head_dim; d++) y[d] = result[d][lane] / total[lane];
    }
}

/* `count` heads from row `row` of a cache of 8 bits on as numbers. */
TARGET static void NAME(read_8_bits)(const host_tensor* cache, size_t row, int head_dim, int count, float* values) {
  const int8_t* from = (const int8_t*)cache->data + row * (size_t)cache->shape[3];
  for (int i = 0; i < count; i++, from += cache->shape[3], values += head_dim) {
    float scale;
    memcpy(&scale, from + head_dim, KV_SCALE_BYTES);
    for (int d = 0; d < head_dim; d++) values[d] = (float)from[d] * scale;
  }
}

TARGET static void NAME(score_block)(const call* c, const NAME(vector)* queries, size_t row, int count, NAME(vector)* scores) {
  int head_dim = c->head_dim;
  if (!c->params.is_8_bit) {
    NAME(score)(queries, (const float*)c->keys->data + row * (size_t)head_dim, head_dim, count, scores);
    return;
  }
  float keys[READ_KEYS * head_dim];
  for (int i = 0; i < count; i += READ_KEYS) {
    int left = count - i < READ_KEYS ? count - i : READ_KEYS;
    NAME(read_8_bits)(c->keys, row + (size_t)i, head_dim, left, keys);
    NAME(score)(queries, keys, head_dim, left, scores + i);
  }
}

TARGET static void NAME(weigh_block)(const call* c, const NAME(vector)* weights, size_t row, int count, NAME(vector)* result) {
  int head_dim = c->head_dim;
  if (!c->params.is_8_bit) {
    NAME(weigh)(weights, (const float*)c->values->data + row * (size_t)head_dim, head_dim, count, result);
    return;
  }
  float values[READ_KEYS * head_dim];
  for (int i = 0; i < count; i += READ_KEYS) {
    int left = count - i < READ_KEYS ? count - i : READ_KEYS;
    NAME(read_8_bits)(c->values, row + (size_t)i, head_dim, left, values);
    NAME(weigh)(weights + i, values, head_dim, left, result);
  }
}

/* What a group has seen so far. */
typedef struct NAME(progress) {
  NAME(vector) maximum, total;
  NAME(ints) first, last;             /* positions that each lane sees */
  int start, end;                     /* positions that some lane sees */
  int latest_first, earliest_last;    /* between these, all lanes see everything */
} NAME(progress);

TARGET static NAME(progress) NAME(begin)(const call* c, const query_group* g) {
  NAME(progress) p = {.maximum = (NAME(vector)){0} - INFINITY, .start = INT32_MAX, .earliest_last = INT32_MAX};
  NAME(load_ranges)(c, g, &p.first, &p.last);
  for (int lane = 0; lane < LANES; lane++) {
    if (p.first[lane] < p.start) p.start = p.first[lane];
    if (p.first[lane] > p.latest_first) p.latest_first = p.first[lane];
    if (p.last[lane] + 1 > p.end) p.end = p.last[lane] + 1;
    if (p.last[lane] < p.earliest_last) p.earliest_last = p.last[lane];
  }
  return p;
}

/* Where a group's slot and head begin in keys or values, in heads. They may have room for different numbers of tokens: one of two arrays has grown
 * where there was no memory for the other. */
static size_t NAME(first_row)(const call* c, const host_tensor* cache, const query_group* g) {
  return ((size_t)c->slots[g->first_token] * (size_t)c->num_kv_heads + (size_t)g->kv_head) * (size_t)cache->shape[2];
}

/* `count` (1 … BLOCK_GROUPS) groups of the same slot and heads: a block of keys is read once for all of them. */
TARGET static void NAME(attend_many)(const call* c, const query_group* groups, int count) {
  int head_dim = c->head_dim, start = INT32_MAX, end = 0;
  NAME(vector) queries[count][head_dim], result[count][head_dim], scores[KEY_BLOCK];
  NAME(progress) progress[BLOCK_GROUPS];
  memset(result, 0, sizeof result);
  for (int i = 0; i < count; i++) {
    NAME(load_queries)(c, &groups[i], queries[i]);
    progress[i] = NAME(begin)(c, &groups[i]);
    if (progress[i].start < start) start = progress[i].start;
    if (progress[i].end > end) end = progress[i].end;
  }
  size_t key_row = NAME(first_row)(c, c->keys, groups), value_row = NAME(first_row)(c, c->values, groups);
  for (int block = start / KEY_BLOCK * KEY_BLOCK; block < end; block += KEY_BLOCK) {
    for (int i = 0; i < count; i++) {
      NAME(progress)* p = &progress[i];
      int length = p->end - block < KEY_BLOCK ? p->end - block : KEY_BLOCK;
      if (length <= 0 || block + KEY_BLOCK <= p->start) continue;
      NAME(score_block)(c, queries[i], key_row + (size_t)block, length, scores);
      if (block < p->latest_first || block + length - 1 > p->earliest_last) NAME(mask_scores)(scores, block, length, p->first, p->last);
      NAME(take_block)(scores, length, &p->maximum, &p->total, result[i], head_dim);
      NAME(weigh_block)(c, scores, value_row + (size_t)block, length, result[i]);
    }
  }
  for (int i = 0; i < count; i++) NAME(store)(c, &groups[i], result[i], progress[i].total);
}

#if LANES == 16
#include "attention_few_kernels.h"
#endif

TARGET static void NAME(attend)(const call* c, const query_group* groups, int count) {
#if LANES == 16
  if (count == 1 && NAME(is_few)(c, groups)) {
    NAME(attend_few)(c, groups);
    return;
  }
#endif
  NAME(attend_many)(c, groups, count);
}

#undef NAME
#undef TARGET
#undef LANES
