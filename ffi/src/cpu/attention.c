#include "attention.h"

#include <math.h>
#include <string.h>

#include "features.h"
#include "vector_math.h"
#include "workers.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Keys between two rescalings of the softmax: their scores stay in the first-level cache. So do keys of 8 bits that became numbers. */
enum { KEY_BLOCK = 128, BLOCK_GROUPS = 8, READ_KEYS = 32, PARTS_PER_THREAD = 8, MIN_SHARED_WORK = 1 << 15 };

/* Keys and values of a row come from memory, and the processor follows them no further than to the end of a page: so many ahead are asked for. */
enum { PREFETCHED_KEYS = 32, LINE_FLOATS = 16 };

/* The largest value becomes ±127; zeros stay zeros. */
static void write_8_bits(const float* x, int head_dim, int8_t* out) {
  float most = 0;
  for (int d = 0; d < head_dim; d++) most = fabsf(x[d]) > most ? fabsf(x[d]) : most;
  float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
  for (int d = 0; d < head_dim; d++) out[d] = (int8_t)lrintf(x[d] * inverse);
  memcpy(out + head_dim, &scale, KV_SCALE_BYTES);
}

void host_write_cache(const void* params, const host_tensor* inputs, void* output) {
  const write_cache_params* p = params;
  const host_tensor *cache = &inputs[0], *x = &inputs[1];
  const int32_t *slots = inputs[2].data, *positions = inputs[3].data;
  int num_heads = cache->shape[1], capacity = cache->shape[2], head_dim = x->shape[2];
  for (int t = 0; t < x->shape[0]; t++) {
    for (int h = 0; h < num_heads; h++) {
      const float* from = (const float*)x->data + t * x->strides[0] + (p->first_head + h) * x->strides[1];
      size_t row = ((size_t)slots[t] * (size_t)num_heads + (size_t)h) * (size_t)capacity + (size_t)positions[t];
      if (p->is_8_bit) write_8_bits(from, head_dim, (int8_t*)output + row * (size_t)cache->shape[3]);
      else memcpy((float*)output + row * (size_t)head_dim, from, (size_t)head_dim * sizeof *from);
    }
  }
}

/* Up to a vector's worth of queries that look at the same keys: some tokens of one row, some of the heads that share a kv head. */
typedef struct query_group {
  int first_token, num_tokens, kv_head, first_head, num_heads;
} query_group;

/* Groups that are planned before they are computed, and features of those that share a block of keys, which lie on the stack. */
enum { MAX_GROUPS = 1024, MAX_SHARED_FEATURES = 1024 };

typedef struct call {
  attention_params params;
  const host_tensor *q, *keys, *values;
  const int32_t *slots, *last_seen, *window_from;
  float* output;
  int num_heads, num_kv_heads, head_dim;
  int num_groups;
  int64_t num_keys; /* that the groups look at */
  query_group groups[MAX_GROUPS];
} call;

#if defined(__x86_64__)
#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#define LANES 16
#include "attention_kernels.h"
#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#include "attention_kernels.h"
static int lanes(void) { return cpu_has_avx512() ? 16 : 8; }
#else
#define NAME(x) base_##x
#define TARGET
#define LANES 4
#include "attention_kernels.h"
static int lanes(void) { return 4; }
#endif

static void attend_groups(const call* c, const query_group* groups, int count) {
#if defined(__x86_64__)
  if (cpu_has_avx512()) avx512_attend(c, groups, count);
  else avx2_attend(c, groups, count);
#else
  base_attend(c, groups, count);
#endif
}

static bool can_share_keys(const call* c, const query_group* a, const query_group* b) {
  return a->first_head == b->first_head && c->slots[a->first_token] == c->slots[b->first_token];
}

static void groups_part(void* work, int index, int count) {
  const call* c = work;
  int last = (int)((int64_t)c->num_groups * (index + 1) / count), most = MAX_SHARED_FEATURES / c->head_dim;
  if (most > BLOCK_GROUPS) most = BLOCK_GROUPS;
  for (int i = (int)((int64_t)c->num_groups * index / count), end; i < last; i = end) {
    for (end = i + 1; end < last && end - i < most && can_share_keys(c, &c->groups[i], &c->groups[end]);) end++;
    attend_groups(c, &c->groups[i], end - i);
  }
}

static void attend_planned(call* c) {
  int num_parts = PARTS_PER_THREAD * workers_count();
  if (num_parts > c->num_groups) num_parts = c->num_groups;
  if (c->num_keys * c->head_dim < MIN_SHARED_WORK) groups_part(c, 0, 1);
  else workers_run(groups_part, c, num_parts);
  c->num_groups = 0, c->num_keys = 0;
}

/* Cuts [first, end), the tokens of one row, and the heads of every kv head into groups. */
static void plan_row(call* c, int first, int end) {
  int heads = c->num_heads / c->num_kv_heads, most_heads = heads < lanes() ? heads : lanes(), tokens = lanes() / most_heads;
  for (int kv_head = 0; kv_head < c->num_kv_heads; kv_head++)
    for (int head = 0; head < heads; head += most_heads)
      for (int token = first; token < end; token += tokens) {
        int left = heads - head, num_tokens = end - token < tokens ? end - token : tokens;
        if (c->num_groups == MAX_GROUPS) attend_planned(c);
        c->groups[c->num_groups++] = (query_group){token, num_tokens, kv_head, kv_head * heads + head, left < most_heads ? left : most_heads};
        c->num_keys += c->last_seen[token + num_tokens - 1] + 1;
      }
}

void host_attention(const void* params, const host_tensor* inputs, void* output) {
  call c = {.params = *(const attention_params*)params, .q = &inputs[0], .keys = &inputs[1], .values = &inputs[2], .slots = inputs[3].data,
            .last_seen = inputs[4].data, .window_from = inputs[5].data, .output = output,
            .num_kv_heads = inputs[1].shape[1], .head_dim = inputs[0].shape[2]};
  c.num_heads = c.params.num_heads;
  int num_tokens = inputs[0].shape[0];
  for (int first = 0, end; first < num_tokens; first = end) {
    for (end = first + 1; end < num_tokens && c.slots[end] == c.slots[first];) end++;
    plan_row(&c, first, end);
  }
  attend_planned(&c);
}
