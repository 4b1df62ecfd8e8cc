/* Pages: copies of some tokens of one slot, in all layers, that outlive the slot's row and are written to other slots later. */
#include <stdlib.h>
#include <string.h>

#include "array_memory.h"
#include "sparse_cache.h"

struct rl_page {
  const rl_model* model;
  int length;
  bool has_state;
  mlx_array* arrays; /* two for each layer; ctx NULL for a recurrent layer of a page without state */
};

/* What a page takes of one of a layer's arrays is all of it, but for the slot, and the tokens of keys and values. */
static bool is_part(const rl_page* page, int i) { return page->has_state || !page->model->states[i / 2].is_recurrent; }

static int32_t check_range(const rl_cache* cache, const char* call, int slot, int start, int length) {
  if (slot < 0 || slot >= cache->num_slots)
    return rl_fail(RL_ERR_ARGUMENT, "%s: slot is %d, the cache has %d", call, slot, cache->num_slots);
  if (length < 1 || start < 0 || (int64_t)start + length > cache->capacity)
    return rl_fail(RL_ERR_ARGUMENT, "%s: %d tokens from %d on, the slot has room for 1 … %d", call, length, start, cache->capacity);
  return RL_OK;
}

static void free_page(rl_page* page) {
  for (int i = 0; page->arrays != NULL && i < 2 * page->model->num_layers; i++) array_free(&page->arrays[i]);
  free(page->arrays);
  free(page);
}

/* Shape of one of the page's arrays. */
static const int* part_shape(const rl_page* page, layer_state* state, int i) {
  state->shapes[i % 2][0] = 1;
  if (!state->is_recurrent) state->shapes[i % 2][2] = page->length;
  return state->shapes[i % 2];
}

/* Keys and values that our own kernels change where they lie are copied as they lie: what MLX copies of an array can be a view of it. */
static bool is_host_part(const rl_cache* cache, int i) { return cache->model->uses_host_ops && !cache->model->states[i / 2].is_recurrent; }

typedef enum direction { CACHE_TO_PAGE, PAGE_TO_CACHE } direction;

static void copy_host_part(const rl_page* page, const rl_cache* cache, int i, int slot, int start, direction to) {
  int num_heads = cache->model->states[i / 2].shapes[i % 2][1];
  for (int head = 0; head < num_heads; head++) {
    size_t token_bytes;
    uint8_t* cached = cache_tokens(cache, i, slot, head, start, &token_bytes);
    size_t num_bytes = (size_t)page->length * token_bytes;
    uint8_t* own = array_data(page->arrays[i]) + (size_t)head * num_bytes;
    memcpy(to == PAGE_TO_CACHE ? cached : own, to == PAGE_TO_CACHE ? own : cached, num_bytes);
  }
}

static int32_t save_host_part(rl_page* page, const rl_cache* cache, int i, int slot, int start) {
  layer_state state = cache->model->states[i / 2];
  uint8_t* data;
  page->arrays[i] = array_uninitialized(part_shape(page, &state, i), 4, state.dtypes[i % 2], &data);
  if (page->arrays[i].ctx == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for a page of %d tokens", page->length);
  copy_host_part(page, cache, i, slot, start, CACHE_TO_PAGE);
  return RL_OK;
}

/* Fills the page's arrays; what MLX copies is evaluated together. */
static int32_t copy_slot(rl_page* page, const rl_cache* cache, int slot, int start) {
  cache_settle(cache);
  scope s = scope_open(page->model->stream);
  mlx_vector_array roots = mlx_vector_array_new();
  for (int i = 0; i < 2 * page->model->num_layers && s.status == RL_OK; i++) {
    if (!is_part(page, i)) continue;
    if (is_host_part(cache, i)) {
      s.status = save_host_part(page, cache, i, slot, start);
      continue;
    }
    mlx_array part = op_slice(&s, cache->layers[i / 2].arrays[i % 2], 0, slot, slot + 1);
    if (!page->model->states[i / 2].is_recurrent) part = op_slice(&s, part, 2, start, start + page->length);
    part = op_copy(&s, part);
    if (s.status != RL_OK) break;
    page->arrays[i] = scope_release(&s, part);
    mlx_vector_array_append_value(roots, part);
  }
  scope_close(&s);
  if (s.status == RL_OK) scope_check(&s, mlx_eval(roots));
  mlx_vector_array_free(roots);
  return s.status;
}

static rl_page* new_page(const rl_model* model, int length, int32_t flags) {
  rl_page* page = calloc(1, sizeof *page);
  mlx_array* arrays = calloc(2 * (size_t)model->num_layers, sizeof *arrays);
  if (page == NULL || arrays == NULL) return free(page), free(arrays), rl_fail(RL_ERR_MEMORY, "Out of memory for a page of %d tokens", length), NULL;
  *page = (rl_page){.model = model, .length = length, .has_state = (flags & RL_PAGE_STATE) != 0, .arrays = arrays};
  return page;
}

static int32_t check_flags(const char* call, int32_t flags) {
  return (flags & ~RL_PAGE_STATE) == 0 ? RL_OK : rl_fail(RL_ERR_ARGUMENT, "%s: flags are %d, expected 0 or 1", call, flags);
}

int32_t rl_page_save(rl_cache* cache, int32_t slot, int32_t start, int32_t length, int32_t flags, rl_page** out) {
  if (cache == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_save: cache and out must not be NULL");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_range(cache, "rl_page_save", slot, start, length);
  if (status == RL_OK) status = check_flags("rl_page_save", flags);
  if (status != RL_OK) return status;
  rl_page* page = new_page(cache->model, length, flags);
  if (page == NULL) return RL_ERR_MEMORY;
  status = copy_slot(page, cache, slot, start);
  if (status != RL_OK) return free_page(page), status;
  *out = page;
  return RL_OK;
}

int32_t rl_page_load(rl_cache* cache, const rl_page* page, int32_t slot, int32_t start) {
  if (cache == NULL || page == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_load: cache and page must not be NULL");
  if (page->model != cache->model) return rl_fail(RL_ERR_ARGUMENT, "rl_page_load: the page was saved from a cache of another model or drafter");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_range(cache, "rl_page_load", slot, start, page->length);
  if (status != RL_OK) return status;
  cache_drop_snapshots(cache);
  cache_settle(cache);
  cache_write(cache, slot, start, start + page->length);
  scope s = scope_open(cache->model->stream);
  for (int i = 0; i < 2 * cache->model->num_layers && s.status == RL_OK; i++) {
    if (!is_part(page, i)) continue;
    if (is_host_part(cache, i)) {
      copy_host_part(page, cache, i, slot, start, PAGE_TO_CACHE);
      continue;
    }
    mlx_array* own = &cache->layers[i / 2].arrays[i % 2];
    int at = cache->model->states[i / 2].is_recurrent ? 0 : start;
    mlx_array updated = op_update(&s, *own, page->arrays[i], SHAPE(slot, 0, at, 0));
    if (s.status == RL_OK) cache_replace(own, updated);
  }
  scope_close(&s);
  if (s.status != RL_OK) return s.status;
  mlx_vector_array roots = mlx_vector_array_new();
  cache_append_roots(cache, roots);
  /* What is in flight holds its buffers, and the update behind it would copy all of the cache: several pages in a row must wait. */
  scope_check(&s, mlx_eval(roots));
  mlx_vector_array_free(roots);
  return s.status;
}

static int64_t page_bytes(const rl_page* page) {
  int64_t bytes = 0;
  for (int i = 0; i < 2 * page->model->num_layers; i++)
    if (is_part(page, i)) bytes += (int64_t)mlx_array_nbytes(page->arrays[i]);
  return bytes;
}

int32_t rl_page_bytes(const rl_page* page, int64_t* out) {
  if (page == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_bytes: page and out must not be NULL");
  *out = page_bytes(page);
  return RL_OK;
}

int32_t rl_page_export(const rl_page* page, uint8_t* bytes, int64_t capacity) {
  if (page == NULL || bytes == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_export: page and bytes must not be NULL");
  int32_t status = model_check_thread(page->model);
  if (status != RL_OK) return status;
  if (capacity < page_bytes(page))
    return rl_fail(RL_ERR_ARGUMENT, "rl_page_export: the page has %lld bytes, there is room for %lld", (long long)page_bytes(page),
                   (long long)capacity);
  for (int i = 0; i < 2 * page->model->num_layers; i++) {
    if (!is_part(page, i)) continue;
    size_t size = mlx_array_nbytes(page->arrays[i]);
    memcpy(bytes, mlx_array_data_uint8(page->arrays[i]), size);
    bytes += size;
  }
  return RL_OK;
}

static int64_t part_bytes(const rl_page* page, int i) {
  layer_state state = page->model->states[i / 2];
  const int* shape = part_shape(page, &state, i);
  return (int64_t)mlx_dtype_size(state.dtypes[i % 2]) * shape[0] * shape[1] * shape[2] * shape[3];
}

int32_t rl_page_import(const rl_cache* cache, int32_t length, int32_t flags, const uint8_t* bytes, int64_t num_bytes, rl_page** out) {
  if (cache == NULL || bytes == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_import: cache, bytes and out must not be NULL");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_flags("rl_page_import", flags);
  if (status != RL_OK) return status;
  if (length < 1 || length > 1 << 24) return rl_fail(RL_ERR_ARGUMENT, "rl_page_import: length is %d, expected 1 … 2^24", length);
  rl_page* page = new_page(cache->model, length, flags);
  if (page == NULL) return RL_ERR_MEMORY;
  int64_t expected = 0;
  for (int i = 0; i < 2 * cache->model->num_layers; i++)
    if (is_part(page, i)) expected += part_bytes(page, i);
  if (num_bytes != expected)
    return free_page(page), rl_fail(RL_ERR_ARGUMENT, "rl_page_import: found %lld bytes, a page of %d tokens has %lld", (long long)num_bytes,
                                    length, (long long)expected);
  for (int i = 0; i < 2 * cache->model->num_layers; i++) {
    if (!is_part(page, i)) continue;
    layer_state state = cache->model->states[i / 2];
    page->arrays[i] = mlx_array_new_data(bytes, part_shape(page, &state, i), 4, state.dtypes[i % 2]);
    if (page->arrays[i].ctx == NULL) return free_page(page), rl_fail(RL_ERR_MEMORY, "Out of memory for a page of %d tokens", length);
    bytes += part_bytes(page, i);
  }
  *out = page;
  return RL_OK;
}

int32_t rl_page_free(rl_page* page) {
  if (page == NULL) return RL_OK;
  int32_t status = model_check_thread(page->model);
  if (status != RL_OK) return status;
  free_page(page);
  return RL_OK;
}
