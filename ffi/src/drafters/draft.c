/* rl_draft: checks a ragged draft call, plans it like a forward, and runs the drafter. */
#include <stdlib.h>

#include "../output_internal.h"
#include "drafter.h"

static int32_t check_rows(const rl_drafter* d, const rl_cache* cache, const rl_draft_row* rows, int num_rows, int num_tokens, int num_features) {
  int64_t tokens = 0, features = 0, previous_slot = -1;
  for (int i = 0; i < num_rows; i++) {
    const rl_draft_row* r = &rows[i];
    if (r->slot <= previous_slot || r->slot >= cache->num_slots)
      return rl_fail(RL_ERR_ARGUMENT, "Draft row %d has slot %d, expected %lld … %d (rows are in slot order)", i, r->slot,
                     (long long)previous_slot + 1, cache->num_slots - 1);
    bool fits_kind = d->kind->has_block ? r->num_features >= 0 : r->num_features == r->count;
    if (r->count < 1 || !fits_kind)
      return rl_fail(RL_ERR_ARGUMENT, "Draft row %d has %d tokens and %d features, expected %s", i, r->count, r->num_features,
                     d->kind->has_block ? "1 or more tokens and 0 or more features" : "a feature for every token");
    int64_t added = (int64_t)r->count + (d->kind->has_block ? r->num_features : 0);
    if (r->offset < 0 || r->offset + added > cache->capacity)
      return rl_fail(RL_ERR_ARGUMENT, "Draft row %d adds %lld entries at offset %d, the cache holds 0 … %d", i, (long long)added, r->offset, cache->capacity);
    if (r->outputs < 0 || r->outputs > r->count)
      return rl_fail(RL_ERR_ARGUMENT, "Draft row %d asks for %d outputs, expected 0 … %d", i, r->outputs, r->count);
    previous_slot = r->slot;
    tokens += r->count, features += r->num_features;
  }
  if (tokens != num_tokens || features != num_features)
    return rl_fail(RL_ERR_ARGUMENT, "The draft rows count %lld tokens and %lld features, %d and %d were given", (long long)tokens,
                   (long long)features, num_tokens, num_features);
  return RL_OK;
}

/* Finds who made the source's features and checks the rows that are asked for. */
static int32_t check_source(const rl_drafter* d, const rl_output* source, const int32_t* source_rows, int num_rows, draft_inputs* inputs) {
  const void* maker = NULL;
  mlx_array features = output_features(source, &maker);
  if (num_rows == 0) return inputs->features = mlx_array_empty, RL_OK;
  if (features.ctx == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_draft: the source holds no features; call rl_model_capture before the forward");
  inputs->is_own = maker == d;
  if (maker != d->target && (maker != d || d->kind->has_block))
    return rl_fail(RL_ERR_ARGUMENT, "rl_draft: the source's features come from another model or drafter");
  int width = mlx_array_dim(features, 1), wanted = inputs->is_own ? d->own_width : d->target_width, num_features = mlx_array_dim(features, 0);
  if (width != wanted) return rl_fail(RL_ERR_ARGUMENT, "rl_draft: the source's features are %d wide, expected %d", width, wanted);
  for (int i = 0; i < num_rows; i++)
    if (source_rows[i] < 0 || source_rows[i] >= num_features)
      return rl_fail(RL_ERR_ARGUMENT, "rl_draft: source row %d is %d, expected 0 … %d", i, source_rows[i], num_features - 1);
  inputs->features = features;
  return RL_OK;
}

/* Host arrays of one call, in one allocation. */
typedef struct draft_plan {
  rl_row* rows;
  run* runs;
  int32_t *positions, *last_seen, *window_from;       /* of tokens */
  int32_t *all_slots, *all_positions;                 /* of the context, then of the tokens */
  int32_t *lengths, *outputs;
  int num_outputs;
} draft_plan;

static void* allocate_plan(draft_plan* p, int num_tokens, int num_context, int num_rows) {
  size_t n = (size_t)num_tokens, all = n + (size_t)num_context, rows = (size_t)num_rows;
  char* memory = calloc(1, rows * (sizeof(run) + sizeof(rl_row) + sizeof(int32_t)) + (4 * n + 2 * all) * sizeof(int32_t));
  if (memory == NULL) return NULL;
  p->runs = (run*)memory;
  p->rows = (rl_row*)(p->runs + rows);
  p->positions = (int32_t*)(p->rows + rows);
  p->last_seen = p->positions + n;
  p->window_from = p->last_seen + n;
  p->outputs = p->window_from + n;
  p->all_slots = p->outputs + n;
  p->all_positions = p->all_slots + all;
  p->lengths = p->all_positions + all;
  return memory;
}

/* Context joins at a row's offset and the block follows it; without a block, the tokens themselves are the history's next entries. */
static void plan(draft_plan* p, const rl_draft_row* rows, int num_rows, int num_context, bool has_block) {
  int token = 0, context = 0;
  for (int i = 0; i < num_rows; i++) {
    const rl_draft_row* r = &rows[i];
    int num_joining = has_block ? r->num_features : 0, start = r->offset + num_joining;
    p->rows[i] = (rl_row){.slot = r->slot, .offset = start, .count = r->count, .outputs = r->outputs};
    p->lengths[i] = start + r->count;
    for (int j = 0; j < num_joining; j++, context++) p->all_slots[context] = r->slot, p->all_positions[context] = r->offset + j;
    for (int j = 0; j < r->count; j++, token++) {
      p->positions[token] = start + j;
      p->last_seen[token] = has_block ? start + r->count - 1 : start + j;
      p->window_from[token] = has_block ? start : start + j;
      p->all_slots[num_context + token] = r->slot, p->all_positions[num_context + token] = start + j;
      if (j >= r->count - r->outputs) p->outputs[p->num_outputs++] = token;
    }
  }
}

static int32_t run_draft(forward* f, rl_drafter* d, rl_output* output, draft_plan* p, draft_inputs* inputs, const int32_t* source_rows, int num_features) {
  scope* s = f->s;
  int num_all = inputs->num_context + f->num_tokens;
  inputs->positions = p->all_positions;
  if (inputs->features.ctx != NULL) inputs->features = op_take(s, inputs->features, op_ints(s, source_rows, num_features), 0);
  forward_plan_runs(f, p->lengths);
  f->token_ids = op_ints(s, f->tokens, f->num_tokens);
  f->scatter_slots = op_ints(s, p->all_slots, num_all);
  f->scatter_positions = op_ints(s, p->all_positions, num_all);
  mlx_array hidden = d->kind->hidden(f, d, inputs);
  /* What only keeps the history whole needs its keys and values, and nothing that is computed from them. */
  if (p->num_outputs == 0) return forward_launch(f, output, d, mlx_array_empty, mlx_array_empty, mlx_array_empty);
  mlx_array wanted = p->num_outputs == f->num_tokens ? hidden : op_take(s, hidden, op_ints(s, p->outputs, p->num_outputs), 0);
  return forward_launch(f, output, d, d->kind->logits(f, d, wanted), hidden, hidden);
}

int32_t rl_draft(rl_drafter* d, rl_cache* cache, rl_output* output, const int32_t* tokens, int32_t num_tokens, const rl_draft_row* rows,
                 int32_t num_rows, rl_output* source, const int32_t* source_rows, int32_t num_source_rows) {
  if (d == NULL || cache == NULL || output == NULL || tokens == NULL || rows == NULL || source == NULL ||
      (source_rows == NULL && num_source_rows != 0) || cache->model != &d->base)
    return rl_fail(RL_ERR_ARGUMENT, "rl_draft: a handle or array is NULL, or the cache belongs to another model");
  if (num_tokens < 1 || num_rows < 1 || num_source_rows < 0)
    return rl_fail(RL_ERR_ARGUMENT, "rl_draft: %d tokens of %d rows with %d features, expected 1 or more, 1 or more and 0 or more", num_tokens, num_rows,
                   num_source_rows);
  draft_inputs inputs = {.num_context = d->kind->has_block ? num_source_rows : 0};
  int32_t status = model_check_thread(&d->base);
  if (status == RL_OK) status = check_rows(d, cache, rows, num_rows, num_tokens, num_source_rows);
  if (status == RL_OK) status = forward_check_tokens(&d->base, tokens, num_tokens);
  if (status == RL_OK) status = check_source(d, source, source_rows, num_source_rows, &inputs);
  if (status != RL_OK) return status;
  draft_plan p = {0};
  void* memory = allocate_plan(&p, num_tokens, inputs.num_context, num_rows);
  if (memory == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for a draft of %d tokens", num_tokens);
  plan(&p, rows, num_rows, inputs.num_context, d->kind->has_block);
  for (int i = 0; i < num_rows; i++) cache_write(cache, rows[i].slot, rows[i].offset, p.lengths[i]);
  scope s = scope_open(d->base.stream);
  forward f = {.s = &s, .model = &d->base, .cache = cache, .tokens = tokens, .rows = p.rows, .num_tokens = num_tokens, .num_rows = num_rows,
               .positions = p.positions, .last_seen = p.last_seen, .window_from = p.window_from, .runs = p.runs};
  status = run_draft(&f, d, output, &p, &inputs, source_rows, num_source_rows);
  free(memory);
  return status;
}
