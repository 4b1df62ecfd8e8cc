/* Pages: copies of some tokens of one slot, in all layers, that outlive the slot's row and are written to other slots later. */
#include <stdlib.h>

#include "cache.h"

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

/* Fills the page's arrays; they are evaluated together. */
static int32_t copy_slot(rl_page* page, const rl_cache* cache, int slot, int start) {
  scope s = scope_open(page->model->stream);
  mlx_vector_array roots = mlx_vector_array_new();
  for (int i = 0; i < 2 * page->model->num_layers && s.status == RL_OK; i++) {
    if (!is_part(page, i)) continue;
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

int32_t rl_page_save(rl_cache* cache, int32_t slot, int32_t start, int32_t length, int32_t flags, rl_page** out) {
  if (cache == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_save: cache and out must not be NULL");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_range(cache, "rl_page_save", slot, start, length);
  if (status != RL_OK) return status;
  if ((flags & ~RL_PAGE_STATE) != 0) return rl_fail(RL_ERR_ARGUMENT, "rl_page_save: flags are %d, expected 0 or 1", flags);
  rl_page* page = calloc(1, sizeof *page);
  if (page != NULL)
    *page = (rl_page){.model = cache->model, .length = length, .has_state = (flags & RL_PAGE_STATE) != 0,
                      .arrays = calloc(2 * (size_t)cache->model->num_layers, sizeof(mlx_array))};
  if (page == NULL || page->arrays == NULL) return free(page), rl_fail(RL_ERR_MEMORY, "Out of memory for a page of %d tokens", length);
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
  scope s = scope_open(cache->model->stream);
  for (int i = 0; i < 2 * cache->model->num_layers && s.status == RL_OK; i++) {
    if (!is_part(page, i)) continue;
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

int32_t rl_page_bytes(const rl_page* page, int64_t* out) {
  if (page == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_page_bytes: page and out must not be NULL");
  *out = 0;
  for (int i = 0; i < 2 * page->model->num_layers; i++)
    if (is_part(page, i)) *out += (int64_t)mlx_array_nbytes(page->arrays[i]);
  return RL_OK;
}

int32_t rl_page_free(rl_page* page) {
  if (page == NULL) return RL_OK;
  int32_t status = model_check_thread(page->model);
  if (status != RL_OK) return status;
  free_page(page);
  return RL_OK;
}
