/* Part of attention_kernels.h for vectors of 16 floats. A decoding row has few queries: lanes hold keys while scores are made, and features
 * while values are weighed. Every number goes through the same operations in the same order as where many queries share a vector. */
enum { FEW_QUERIES = 4, FEW_MAX_HEAD_DIM = 256 };

/* 16 keys × 16 features, `stride` floats from key to key, to [feature][key]. */
TARGET static inline void NAME(transpose)(const float* from, size_t stride, NAME(vector)* to) {
  __m512 rows[16], pairs[16];
  for (int i = 0; i < 16; i++) rows[i] = _mm512_loadu_ps(from + (size_t)i * stride);
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int high = 0; high < 2; high++) {
      __m512d a = _mm512_castps_pd(pairs[i + high]), b = _mm512_castps_pd(pairs[i + 2 + high]);
      rows[i + 2 * high] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      rows[i + 2 * high + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  /* rows[4 k + f] now has the features f, f + 4, f + 8, f + 12 of the keys 4 k … 4 k + 3, one feature in each quarter. */
  for (int f = 0; f < 4; f++) {
    __m512 low01 = _mm512_shuffle_f32x4(rows[f], rows[4 + f], 0x88), low23 = _mm512_shuffle_f32x4(rows[8 + f], rows[12 + f], 0x88);
    __m512 high01 = _mm512_shuffle_f32x4(rows[f], rows[4 + f], 0xDD), high23 = _mm512_shuffle_f32x4(rows[8 + f], rows[12 + f], 0xDD);
    to[f] = (NAME(vector))_mm512_shuffle_f32x4(low01, low23, 0x88);
    to[f + 8] = (NAME(vector))_mm512_shuffle_f32x4(low01, low23, 0xDD);
    to[f + 4] = (NAME(vector))_mm512_shuffle_f32x4(high01, high23, 0x88);
    to[f + 12] = (NAME(vector))_mm512_shuffle_f32x4(high01, high23, 0xDD);
  }
}

/* scores[h] of 16 keys. Keys that are not there are those before them again. */
TARGET static void NAME(score_few)(const float (*queries)[FEW_MAX_HEAD_DIM], int num_queries, const float* keys, int head_dim, int count,
                                   NAME(vector)* scores) {
  NAME(vector) features[16], sums[FEW_QUERIES] = {{0}};
  float last_keys[16 * FEW_MAX_HEAD_DIM];
  if (count < 16) {
    memcpy(last_keys, keys, (size_t)count * (size_t)head_dim * sizeof *keys);
    for (int i = count; i < 16; i++) memcpy(last_keys + i * head_dim, keys, (size_t)head_dim * sizeof *keys);
    keys = last_keys;
  }
  for (int d = 0; d < head_dim; d += 16) {
    for (int i = 0; i < 16; i++) __builtin_prefetch(keys + (PREFETCHED_KEYS + i) * head_dim + d);
    NAME(transpose)(keys + d, (size_t)head_dim, features);
    for (int i = 0; i < 16; i++)
      for (int h = 0; h < FEW_QUERIES; h++) sums[h] += features[i] * queries[h][d + i];
  }
  for (int h = 0; h < num_queries; h++) scores[h] = sums[h];
}

/* result[h] += sum over the keys of weights[h][key] * values[key]. */
TARGET static void NAME(weigh_few)(const float (*weights)[KEY_BLOCK], int num_queries, const float* values, int head_dim, int count,
                                   float (*result)[FEW_MAX_HEAD_DIM]) {
  for (int d = 0; d < head_dim; d += 64) {
    int num_vectors = head_dim - d < 64 ? (head_dim - d) / 16 : 4;
    NAME(vector) sums[FEW_QUERIES][4];
    for (int h = 0; h < FEW_QUERIES; h++)
      for (int v = 0; v < 4; v++) sums[h][v] = v < num_vectors ? NAME(load_lanes)(result[h] + d + 16 * v) : (NAME(vector)){0};
    for (int i = 0; i < count; i++) {
      const float* value = values + (size_t)i * (size_t)head_dim + (size_t)d;
      NAME(vector) parts[4];
      for (int v = 0; v < 4; v++) parts[v] = NAME(load_lanes)(value + 16 * (v < num_vectors ? v : 0));
      for (int v = 0; v < num_vectors; v++) __builtin_prefetch(value + PREFETCHED_KEYS * head_dim + 16 * v);
      for (int h = 0; h < FEW_QUERIES; h++)
        for (int v = 0; v < 4; v++) sums[h][v] += parts[v] * weights[h][i];
    }
    for (int h = 0; h < num_queries; h++)
      for (int v = 0; v < num_vectors; v++) *(NAME(vector)*)(result[h] + d + 16 * v) = sums[h][v];
  }
}

/* The state of a few queries: `result` before it is divided by `total`. */
typedef struct NAME(few) {
  float queries[FEW_QUERIES][FEW_MAX_HEAD_DIM], result[FEW_QUERIES][FEW_MAX_HEAD_DIM], weights[FEW_QUERIES][KEY_BLOCK];
  float maximum[FEW_QUERIES], total[FEW_QUERIES];
} NAME(few);

/* Scores of one block, in few->weights, to weights. */
TARGET static void NAME(take_few)(NAME(few)* few, int h, int count, int head_dim) {
  NAME(vector) most = (NAME(vector)){0} + few->maximum[h], sums = {0}, weight, rescale;
  for (int i = 0; i < count; i += 16) {
    NAME(vector) score = NAME(load_lanes)(few->weights[h] + i);
    most = NAME(select)((NAME(ints))(score > most), score, most);
  }
  float maximum = most[0];
  for (int lane = 1; lane < 16; lane++) maximum = most[lane] > maximum ? most[lane] : maximum;
  float base = maximum > -INFINITY ? maximum : 0;
  VECTOR_EXP(NAME(vector), NAME(ints), (NAME(vector)){0} + (few->maximum[h] - base), rescale);
  for (int i = 0; i < count; i += 16) {
    VECTOR_EXP(NAME(vector), NAME(ints), NAME(load_lanes)(few->weights[h] + i) - base, weight);
    *(NAME(vector)*)(few->weights[h] + i) = weight;
    sums += weight;
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  few->total[h] = few->total[h] * rescale[0] + sums[0];
  for (int d = 0; d < head_dim; d += 16) *(NAME(vector)*)(few->result[h] + d) *= rescale;
  few->maximum[h] = maximum;
}

/* One block of keys for all queries, of which the first is seen from `first` on; `numbers` has room for READ_KEYS heads of a cache of 8 bits. */
TARGET static void NAME(take_block_of_few)(const call* c, NAME(few)* few, const query_group* g, int block, int count, int first,
                                      float* numbers) {
  int head_dim = c->head_dim, whole = (count + 15) / 16 * 16, num_queries = g->num_heads;
  const host_tensor* caches[] = {c->keys, c->values};
  for (int which = 0; which < 2; which++) {
    size_t row = NAME(first_row)(c, caches[which], g) + (size_t)block;
    for (int i = 0; i < count; i += READ_KEYS) {
      int length = count - i < READ_KEYS ? count - i : READ_KEYS;
      const float* heads = (const float*)caches[which]->data + (row + (size_t)i) * (size_t)head_dim;
      if (c->params.is_8_bit) NAME(read_8_bits)(caches[which], row + (size_t)i, head_dim, length, numbers), heads = numbers;
      for (int k = 0; k < length && which == 0; k += 16) {
        NAME(vector) scores[FEW_QUERIES];
        NAME(score_few)(few->queries, num_queries, heads + (size_t)k * (size_t)head_dim, head_dim, length - k < 16 ? length - k : 16, scores);
        for (int h = 0; h < num_queries; h++) *(NAME(vector)*)(few->weights[h] + i + k) = scores[h];
      }
      if (which == 1) {
        const float(*weights)[KEY_BLOCK] = (const void*)(few->weights[0] + i);
        NAME(weigh_few)(weights, num_queries, heads, head_dim, length, few->result);
      }
    }
    for (int h = 0; h < num_queries && which == 0; h++) {
      for (int i = 0; i < first; i++) few->weights[h][i] = -INFINITY;
      for (int i = count; i < whole; i++) few->weights[h][i] = -INFINITY;
      NAME(take_few)(few, h, whole, head_dim);
    }
  }
}

/* One token's heads, which see all keys from its first on. */
TARGET static void NAME(attend_few)(const call* c, const query_group* g) {
  int head_dim = c->head_dim, token = g->first_token, end = c->last_seen[token] + 1;
  int from = c->params.window > 0 ? c->window_from[token] - c->params.window + 1 : 0, start = from > 0 ? from : 0;
  NAME(few) few;
  float numbers[READ_KEYS * FEW_MAX_HEAD_DIM];
  memset(few.result, 0, sizeof few.result), memset(few.weights, 0, sizeof few.weights), memset(few.queries, 0, sizeof few.queries);
  for (int h = 0; h < g->num_heads; h++) {
    const float* q = (const float*)c->q->data + token * c->q->strides[0] + (g->first_head + h) * c->q->strides[1];
    for (int d = 0; d < head_dim; d++) few.queries[h][d] = q[d] * c->params.scale;
    few.maximum[h] = -INFINITY, few.total[h] = 0;
  }
  for (int block = start / KEY_BLOCK * KEY_BLOCK; block < end; block += KEY_BLOCK) {
    int count = end - block < KEY_BLOCK ? end - block : KEY_BLOCK;
    NAME(take_block_of_few)(c, &few, g, block, count, start - block, numbers);
  }
  for (int h = 0; h < g->num_heads; h++) {
    float* y = c->output + ((size_t)token * (size_t)c->num_heads + (size_t)(g->first_head + h)) * (size_t)head_dim;
    for (int d = 0; d < head_dim; d++) y[d] = few.result[h][d] / few.total[h];
  }
}

static bool NAME(is_few)(const call* c, const query_group* g) {
  return g->num_tokens == 1 && g->num_heads <= FEW_QUERIES && c->head_dim % 16 == 0 && c->head_dim <= FEW_MAX_HEAD_DIM;
}
