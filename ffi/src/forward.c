#include "forward.h"

#include <stdlib.h>

#include "cache.h"
#include "output_internal.h"

int32_t forward_check_tokens(const rl_model* m, const int32_t* tokens, int num_tokens) {
  for (int i = 0; i < num_tokens; i++)
    if (tokens[i] < 0 || tokens[i] >= m->vocab_size)
      return rl_fail(RL_ERR_ARGUMENT, "Token %d is %d, expected 0 … %d", i, tokens[i], m->vocab_size - 1);
  return RL_OK;
}

static int32_t check_rows(const rl_cache* cache, int num_tokens, const rl_row* rows, int num_rows) {
  int64_t total = 0, previous_slot = -1;
  for (int i = 0; i < num_rows; i++) {
    const rl_row* r = &rows[i];
    if (r->slot <= previous_slot || r->slot >= cache->num_slots)
      return rl_fail(RL_ERR_ARGUMENT, "Row %d has slot %d, expected %lld … %d (rows are in slot order)", i, r->slot,
                     (long long)previous_slot + 1, cache->num_slots - 1);
    if (r->count < 1 || r->offset < 0 || (int64_t)r->offset + r->count > cache->capacity)
      return rl_fail(RL_ERR_ARGUMENT, "Row %d adds %d tokens at offset %d, the cache holds 0 … %d", i, r->count, r->offset, cache->capacity);
    if (r->outputs < 0 || r->outputs > r->count)
      return rl_fail(RL_ERR_ARGUMENT, "Row %d asks for %d outputs, expected 0 … %d", i, r->outputs, r->count);
    if ((r->flags & ~RL_ROW_VERIFY) != 0) return rl_fail(RL_ERR_ARGUMENT, "Row %d has the flags %d, expected 0 or 1", i, r->flags);
    if (r->flags != 0 && r->count > VERIFY_MAX_TOKENS)
      return rl_fail(RL_ERR_ARGUMENT, "Row %d verifies %d tokens, expected 1 … %d", i, r->count, VERIFY_MAX_TOKENS);
    previous_slot = r->slot;
    total += r->count;
  }
  if (total != num_tokens) return rl_fail(RL_ERR_ARGUMENT, "The rows count %lld tokens, %d were given", (long long)total, num_tokens);
  return RL_OK;
}

static int min_int(int a, int b) { return a < b ? a : b; }

void forward_plan_runs(forward* f, const int32_t* lengths) {
  int token = 0;
  for (int i = 0; i < f->num_rows; i++) {
    const rl_row* row = &f->rows[i];
    run* last = f->num_runs > 0 ? &f->runs[f->num_runs - 1] : NULL;
    bool is_verify = (row->flags & RL_ROW_VERIFY) != 0;
    bool extends = last != NULL && last->count == row->count && last->first_slot + last->num_rows == row->slot && last->is_verify == is_verify;
    if (!extends) {
      last = &f->runs[f->num_runs++];
      *last = (run){.first_row = i, .first_token = token, .first_slot = row->slot, .count = row->count, .is_verify = is_verify};
    }
    last->num_rows++;
    int length = lengths != NULL ? lengths[i] : row->offset + row->count;
    if (length > last->length) last->length = length;
    token += row->count;
  }
  /* Rows of different lengths need a mask anyway: whole vectors of keys are faster than a ragged end. */
  for (int i = 0; i < f->num_runs; i++)
    if (f->runs[i].num_rows > 1) f->runs[i].length = min_int((f->runs[i].length + 15) / 16 * 16, f->cache->capacity);
}

/* Where every token goes, and which hidden rows become logits; `outputs` gets their indices and its count is returned. */
static int plan_tokens(forward* f, int32_t* slots, int32_t* outputs) {
  int token = 0, num_outputs = 0;
  for (int i = 0; i < f->num_rows; i++) {
    const rl_row* row = &f->rows[i];
    for (int j = 0; j < row->count; j++, token++) {
      slots[token] = row->slot;
      f->positions[token] = row->offset + j;
      if (j >= row->count - row->outputs) outputs[num_outputs++] = token;
    }
  }
  f->last_seen = f->window_from = f->positions;
  return num_outputs;
}

int32_t forward_launch(forward* f, rl_output* output, const void* maker, mlx_array logits, mlx_array features, mlx_array hidden) {
  scope* s = f->s;
  mlx_array own_logits = logits.ctx != NULL ? scope_release(s, logits) : mlx_array_empty;
  mlx_array own_features = features.ctx != NULL ? scope_release(s, features) : mlx_array_empty;
  mlx_array own_hidden = hidden.ctx != NULL ? scope_release(s, hidden) : mlx_array_empty;
  scope_close(s);
  if (s->status == RL_OK) {
    mlx_vector_array roots = mlx_vector_array_new();
    if (own_logits.ctx != NULL) mlx_vector_array_append_value(roots, own_logits);
    else if (own_hidden.ctx != NULL) mlx_vector_array_append_value(roots, own_hidden);
    if (own_features.ctx != NULL) mlx_vector_array_append_value(roots, own_features);
    cache_append_roots(f->cache, roots);
    scope_check(s, mlx_async_eval(roots));
    mlx_vector_array_free(roots);
  }
  if (own_hidden.ctx != NULL) mlx_array_free(own_hidden);
  output_set(output, own_logits, s->status == RL_OK);
  output_set_features(output, own_features, s->status == RL_OK, maker);
  return s->status;
}

bool is_captured(const forward* f, int layer) {
  for (int i = 0; i < f->model->num_capture_layers; i++)
    if (f->model->capture_layers[i] == layer) return true;
  return false;
}

void capture_layer(forward* f, int layer, mlx_array x) {
  for (int i = 0; i < f->model->num_capture_layers; i++)
    if (f->model->capture_layers[i] == layer) f->captured[i] = x;
}

/* [tokens, width] of what rl_model_capture asked for; ctx NULL when that is nothing. */
static mlx_array features_of(forward* f, mlx_array hidden) {
  if (f->model->capture_kind == RL_CAPTURE_NONE) return mlx_array_empty;
  if (f->model->capture_kind == RL_CAPTURE_FINAL) return hidden;
  for (int i = 0; i < f->model->num_capture_layers; i++)
    if (f->captured[i].ctx == NULL) {
      scope_fail(f->s, RL_ERR_MODEL, "The architecture %s does not hand out the output of layer %d", f->model->architecture->model_type,
                 f->model->capture_layers[i]);
      return mlx_array_empty;
    }
  return op_concatenate(f->s, f->captured, f->model->num_capture_layers, 1);
}

static int32_t run_forward(forward* f, rl_output* output, int32_t* scratch, rl_output* drawn) {
  scope* s = f->s;
  int32_t *slots = scratch + f->num_tokens, *outputs = slots + f->num_tokens;
  mlx_array captured[f->model->num_capture_layers + 1];
  for (int i = 0; i < f->model->num_capture_layers; i++) captured[i] = mlx_array_empty;
  f->captured = captured;
  int num_outputs = plan_tokens(f, slots, outputs);
  forward_plan_runs(f, NULL);
  f->token_ids = drawn != NULL ? output_drawn_tokens(s, drawn) : op_ints(s, f->tokens, f->num_tokens);
  f->scatter_slots = op_ints(s, slots, f->num_tokens);
  f->scatter_positions = op_ints(s, f->positions, f->num_tokens);
  mlx_array hidden = f->model->architecture->hidden(f, f->model->weights), logits = mlx_array_empty;
  if (num_outputs > 0) {
    mlx_array wanted = num_outputs == f->num_tokens ? hidden : op_take(s, hidden, op_ints(s, outputs, num_outputs), 0);
    logits = f->model->architecture->logits(f, f->model->weights, wanted);
  }
  return forward_launch(f, output, f->model, logits, features_of(f, hidden), hidden);
}

/* `tokens`, or what `drawn` draws. */
static int32_t checked_forward(rl_model* model, rl_cache* cache, rl_output* output, const int32_t* tokens, rl_output* drawn, int32_t num_tokens,
                               const rl_row* rows, int32_t num_rows) {
  output_set(output, mlx_array_empty, true);
  cache_drop_snapshots(cache);
  for (int i = 0; i < num_rows; i++) cache_write(cache, rows[i].slot, rows[i].offset, rows[i].offset + rows[i].count);
  int32_t* scratch = malloc(3 * (size_t)num_tokens * sizeof *scratch);
  run* runs = calloc((size_t)num_rows, sizeof *runs);
  if (scratch == NULL || runs == NULL) {
    free(scratch);
    free(runs);
    return rl_fail(RL_ERR_MEMORY, "Out of memory for a step of %d tokens", num_tokens);
  }
  scope s = scope_open(model->stream);
  forward f = {.s = &s, .model = model, .cache = cache, .tokens = tokens, .rows = rows, .num_tokens = num_tokens, .num_rows = num_rows,
               .positions = scratch, .runs = runs};
  int32_t status = run_forward(&f, output, scratch, drawn);
  if (status != RL_OK) cache_drop_snapshots(cache);
  free(scratch);
  free(runs);
  return status;
}

static int32_t check_forward(const char* name, rl_model* model, const rl_cache* cache, const rl_output* output, int32_t num_tokens, const rl_row* rows,
                             int32_t num_rows) {
  if (model == NULL || cache == NULL || output == NULL || rows == NULL || cache->model != model)
    return rl_fail(RL_ERR_ARGUMENT, "%s: a handle or array is NULL, or the cache belongs to another model", name);
  if (num_tokens < 1 || num_rows < 1) return rl_fail(RL_ERR_ARGUMENT, "%s: %d tokens of %d rows, expected 1 or more", name, num_tokens, num_rows);
  int32_t status = model_check_thread(model);
  return status == RL_OK ? check_rows(cache, num_tokens, rows, num_rows) : status;
}

int32_t rl_forward(rl_model* model, rl_cache* cache, rl_output* output, const int32_t* tokens, int32_t num_tokens, const rl_row* rows,
                   int32_t num_rows) {
  int32_t status = check_forward("rl_forward", model, cache, output, num_tokens, rows, num_rows);
  if (status == RL_OK && tokens == NULL) status = rl_fail(RL_ERR_ARGUMENT, "rl_forward: tokens must not be NULL");
  if (status == RL_OK) status = forward_check_tokens(model, tokens, num_tokens);
  return status == RL_OK ? checked_forward(model, cache, output, tokens, NULL, num_tokens, rows, num_rows) : status;
}

int32_t rl_forward_drawn(rl_model* model, rl_cache* cache, rl_output* output, rl_output* drawn, const rl_row* rows, int32_t num_rows) {
  int32_t status = check_forward("rl_forward_drawn", model, cache, output, num_rows, rows, num_rows);
  if (status != RL_OK) return status;
  int32_t num_drawn = drawn != NULL ? output_num_drawn(drawn) : 0;
  if (num_drawn != num_rows || drawn == output)
    return rl_fail(RL_ERR_ARGUMENT, "rl_forward_drawn: %d rows, but another output has to have as many draws on their way, not %d", num_rows, num_drawn);
  return checked_forward(model, cache, output, NULL, drawn, num_rows, rows, num_rows);
}
