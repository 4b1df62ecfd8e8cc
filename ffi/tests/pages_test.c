/* Pages: what is saved from one slot and loaded into another is as if it had been computed there. Equal means equal bits. */
#include <stdbool.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_qwen3_5.h"

enum { NUM_TOKENS = 40, PAGE = 8, PREFIX = 3 * PAGE, NUM_PAGES = PREFIX / PAGE };

static int32_t tokens[NUM_TOKENS];
static char error_text[1024];
static const char* last_error(void) { return rl_last_error(error_text, sizeof error_text), error_text; }

static bool equal(const float* a, const float* b) { return memcmp(a, b, TINY_VOCAB * sizeof *a) == 0; }

/* One row's tokens from the shared sequence, one by one; the logits of the last. */
static void feed(rl_model* m, rl_cache* c, rl_output* o, int slot, int from, int to, float* logits) {
  for (int i = from; i < to; i++) {
    const rl_row row = {slot, i, 1, 1, 0};
    CHECK_VALUES(rl_forward(m, c, o, tokens + i, 1, &row, 1) == RL_OK, "%s", last_error());
  }
  CHECK(rl_output_read(o, logits, TINY_VOCAB) == RL_OK);
}

/* The pages of slot `slot` while its first tokens are computed: the state is in the last of them. */
static void compute_pages(rl_model* m, rl_cache* c, rl_output* o, int slot, rl_page** pages) {
  float ignored[TINY_VOCAB];
  feed(m, c, o, slot, 0, PREFIX, ignored);
  for (int i = 0; i < NUM_PAGES; i++) {
    int32_t flags = i == NUM_PAGES - 1 ? RL_PAGE_STATE : 0;
    CHECK_VALUES(rl_page_save(c, slot, i * PAGE, PAGE, flags, &pages[i]) == RL_OK, "%s", last_error());
  }
}

static void load_pages(rl_cache* c, int slot, rl_page** pages) {
  for (int i = 0; i < NUM_PAGES; i++) CHECK_VALUES(rl_page_load(c, pages[i], slot, i * PAGE) == RL_OK, "%s", last_error());
}

static void test_loads(rl_model* m, rl_cache* c, rl_output* o, rl_page** pages) {
  float expected[TINY_VOCAB], part[TINY_VOCAB], neighbour[TINY_VOCAB];
  CHECK(rl_cache_resize(c, 3, NUM_TOKENS) == RL_OK);
  feed(m, c, o, 1, 0, 12, part);
  feed(m, c, o, 1, 12, 13, neighbour);
  compute_pages(m, c, o, 0, pages);
  feed(m, c, o, 0, PREFIX, NUM_TOKENS, expected);

  /* into another slot, over what a longer row left there; the row beside it notices nothing */
  feed(m, c, o, 2, 0, 30, part);
  feed(m, c, o, 1, 0, 12, part);
  load_pages(c, 2, pages);
  feed(m, c, o, 2, PREFIX, NUM_TOKENS, part);
  CHECK(equal(part, expected));
  feed(m, c, o, 1, 12, 13, part);
  CHECK(equal(part, neighbour));

  /* after the cache was given back, into one of another size, and once more: a page is not used up */
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 5, 2 * NUM_TOKENS) == RL_OK);
  for (int slot = 3; slot < 5; slot++) {
    load_pages(c, slot, pages);
    feed(m, c, o, slot, PREFIX, NUM_TOKENS, part);
    CHECK_VALUES(equal(part, expected), "slot %d", slot);
  }

  /* loaded, then moved and resized */
  load_pages(c, 4, pages);
  CHECK(rl_cache_move(c, 4, 1, PREFIX) == RL_OK && rl_cache_clear(c, 4) == RL_OK && rl_cache_resize(c, 2, NUM_TOKENS) == RL_OK);
  feed(m, c, o, 1, PREFIX, NUM_TOKENS, part);
  CHECK(equal(part, expected));

  /* what is written to the slot later is not in the page */
  rl_page* early = NULL;
  feed(m, c, o, 0, 0, PAGE, part);
  CHECK(rl_page_save(c, 0, 0, PAGE, RL_PAGE_STATE, &early) == RL_OK);
  feed(m, c, o, 0, PAGE, PAGE + 3, neighbour);
  CHECK(rl_cache_clear(c, 0) == RL_OK && rl_page_load(c, early, 0, 0) == RL_OK);
  feed(m, c, o, 0, PAGE, PAGE + 3, part);
  CHECK(equal(part, neighbour));
  CHECK(rl_page_free(early) == RL_OK);
}

/* A page of all that a cache holds may share its memory, as long as nothing changes there. */
static void test_whole_cache(rl_model* m, rl_cache* c, rl_output* o) {
  float expected[TINY_VOCAB], part[TINY_VOCAB];
  rl_page* whole = NULL;
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 1, PAGE) == RL_OK);
  feed(m, c, o, 0, 0, PAGE, expected);
  CHECK(rl_page_save(c, 0, 0, PAGE, 0, &whole) == RL_OK);
  for (int i = 0; i < PAGE; i++) {
    const rl_row other = {0, i, 1, 1, 0};
    CHECK(rl_forward(m, c, o, tokens + NUM_TOKENS - 1 - i, 1, &other, 1) == RL_OK);
  }
  CHECK(rl_output_read(o, part, TINY_VOCAB) == RL_OK && !equal(part, expected));
  for (int times = 0; times < 2; times++) {
    CHECK_VALUES(rl_page_load(c, whole, 0, 0) == RL_OK, "%s", last_error());
    feed(m, c, o, 0, PAGE - 1, PAGE, part);
    CHECK_VALUES(equal(part, expected), "load %d", times);
    feed(m, c, o, 0, 0, 3, part);
  }
  CHECK(rl_page_free(whole) == RL_OK);
}

static int64_t bytes_of(const rl_page* page) {
  int64_t bytes = -1;
  CHECK(rl_page_bytes(page, &bytes) == RL_OK);
  return bytes;
}

/* Exported, freed and imported, pages are what they were, also into a cache without slots. */
static void test_transfer(rl_model* m, rl_cache* c, rl_output* o, rl_page** pages) {
  float expected[TINY_VOCAB], part[TINY_VOCAB];
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 1, NUM_TOKENS) == RL_OK);
  load_pages(c, 0, pages);
  feed(m, c, o, 0, PREFIX, NUM_TOKENS, expected);
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK);
  for (int i = 0; i < NUM_PAGES; i++) {
    int64_t size = bytes_of(pages[i]);
    int32_t flags = i == NUM_PAGES - 1 ? RL_PAGE_STATE : 0;
    uint8_t* bytes = malloc((size_t)size);
    rl_page* refused = NULL;
    if (bytes == NULL) return;
    CHECK(rl_page_export(pages[i], bytes, size - 1) == RL_ERR_ARGUMENT && strstr(last_error(), "there is room for") != NULL);
    CHECK_VALUES(rl_page_export(pages[i], bytes, size) == RL_OK, "%s", last_error());
    CHECK(rl_page_import(c, PAGE, flags, bytes, size - 1, &refused) == RL_ERR_ARGUMENT && strstr(last_error(), "of 8 tokens has") != NULL);
    CHECK(rl_page_import(c, PAGE + 1, flags, bytes, size, &refused) == RL_ERR_ARGUMENT);
    CHECK(rl_page_import(c, 0, flags, bytes, size, &refused) == RL_ERR_ARGUMENT && strstr(last_error(), "length is 0") != NULL);
    CHECK(rl_page_import(c, PAGE, 2, bytes, size, &refused) == RL_ERR_ARGUMENT && refused == NULL);
    CHECK(rl_page_free(pages[i]) == RL_OK);
    CHECK_VALUES(rl_page_import(c, PAGE, flags, bytes, size, &pages[i]) == RL_OK, "%s", last_error());
    CHECK(bytes_of(pages[i]) == size);
    free(bytes);
  }
  CHECK(rl_cache_resize(c, 2, NUM_TOKENS) == RL_OK);
  load_pages(c, 1, pages);
  feed(m, c, o, 1, PREFIX, NUM_TOKENS, part);
  CHECK(equal(part, expected));
}

static void test_bytes(rl_model* m, rl_page** pages) {
  int64_t info[9];
  CHECK(rl_model_info(m, info) == RL_OK);
  CHECK_VALUES(bytes_of(pages[0]) == PAGE * info[4], "%lld", (long long)bytes_of(pages[0]));
  CHECK_VALUES(bytes_of(pages[NUM_PAGES - 1]) == PAGE * info[4] + info[5], "%lld", (long long)bytes_of(pages[NUM_PAGES - 1]));
}

/* Without its state a prefix of a recurrent model is of no use. */
static void test_state(rl_model* m, rl_cache* c, rl_output* o, rl_page** pages) {
  float expected[TINY_VOCAB], part[TINY_VOCAB];
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 2, NUM_TOKENS) == RL_OK);
  load_pages(c, 0, pages);
  feed(m, c, o, 0, PREFIX, PREFIX + 1, expected);
  for (int i = 0; i < NUM_PAGES - 1; i++) CHECK(rl_page_load(c, pages[i], 1, i * PAGE) == RL_OK);
  rl_page* last = NULL;
  load_pages(c, 0, pages);
  CHECK(rl_page_save(c, 0, PREFIX - PAGE, PAGE, 0, &last) == RL_OK && rl_page_load(c, last, 1, PREFIX - PAGE) == RL_OK);
  feed(m, c, o, 1, PREFIX, PREFIX + 1, part);
  CHECK(!equal(part, expected));
  CHECK(rl_page_free(last) == RL_OK);
}

static void test_bad_arguments(rl_cache* c, rl_cache* foreign, rl_page* page) {
  rl_page* out = NULL;
  int64_t bytes;
  CHECK(rl_cache_resize(c, 2, PAGE + 2) == RL_OK && rl_cache_resize(foreign, 2, NUM_TOKENS) == RL_OK);
  CHECK(rl_page_save(NULL, 0, 0, 1, 0, &out) == RL_ERR_ARGUMENT && rl_page_save(c, 0, 0, 1, 0, NULL) == RL_ERR_ARGUMENT);
  CHECK(rl_page_save(c, 2, 0, 1, 0, &out) == RL_ERR_ARGUMENT && strstr(last_error(), "slot is 2, the cache has 2") != NULL);
  CHECK(rl_page_save(c, -1, 0, 1, 0, &out) == RL_ERR_ARGUMENT && rl_page_save(c, 0, -1, 1, 0, &out) == RL_ERR_ARGUMENT);
  CHECK(rl_page_save(c, 0, 0, 0, 0, &out) == RL_ERR_ARGUMENT && rl_page_save(c, 0, INT32_MAX, INT32_MAX, 0, &out) == RL_ERR_ARGUMENT);
  CHECK(rl_page_save(c, 0, 4, PAGE, 0, &out) == RL_ERR_ARGUMENT && strstr(last_error(), "1 … 10") != NULL);
  CHECK(rl_page_save(c, 0, 0, 1, 2, &out) == RL_ERR_ARGUMENT && strstr(last_error(), "flags are 2") != NULL && out == NULL);
  CHECK(rl_page_load(NULL, page, 0, 0) == RL_ERR_ARGUMENT && rl_page_load(c, NULL, 0, 0) == RL_ERR_ARGUMENT);
  CHECK(rl_page_load(c, page, 2, 0) == RL_ERR_ARGUMENT && rl_page_load(c, page, 0, 3) == RL_ERR_ARGUMENT);
  CHECK(rl_page_load(c, page, 0, -1) == RL_ERR_ARGUMENT && rl_page_load(c, page, 0, 2) == RL_OK);
  CHECK(rl_page_load(foreign, page, 0, 0) == RL_ERR_ARGUMENT && strstr(last_error(), "another model") != NULL);
  CHECK(rl_page_export(NULL, NULL, 0) == RL_ERR_ARGUMENT && rl_page_import(NULL, 1, 0, NULL, 0, &out) == RL_ERR_ARGUMENT && out == NULL);
  CHECK(rl_page_bytes(NULL, &bytes) == RL_ERR_ARGUMENT && rl_page_bytes(page, NULL) == RL_ERR_ARGUMENT && rl_page_free(NULL) == RL_OK);
}

static void test_model(rl_model* m, rl_cache* foreign, bool is_recurrent) {
  rl_cache* c = NULL;
  rl_output* o = NULL;
  rl_page* pages[NUM_PAGES] = {NULL};
  CHECK(rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK);
  test_loads(m, c, o, pages);
  test_bytes(m, pages);
  test_transfer(m, c, o, pages);
  if (is_recurrent) test_state(m, c, o, pages);
  else test_whole_cache(m, c, o);
  if (foreign != NULL) test_bad_arguments(c, foreign, pages[0]);
  CHECK(rl_cache_free(c) == RL_OK); /* pages outlive the cache that they were saved from */
  CHECK(bytes_of(pages[0]) > 0);
  for (int i = 0; i < NUM_PAGES; i++) CHECK(rl_page_free(pages[i]) == RL_OK);
  CHECK(rl_output_free(o) == RL_OK);
}

int main(void) {
  tiny_checkpoint plain, hybrid;
  rl_model *llama = NULL, *qwen = NULL;
  rl_cache* foreign = NULL;
  for (int i = 0; i < NUM_TOKENS; i++) tokens[i] = (i * i * 7 + 3 * i + 1) % TINY_VOCAB;
  tiny_checkpoint_write(&plain);
  hybrid_checkpoint_write(&hybrid);
  CHECK_VALUES(rl_model_load(tiny_config, plain.tensors, &llama) == RL_OK, "%s", last_error());
  CHECK_VALUES(rl_model_load(hybrid_config, hybrid.tensors, &qwen) == RL_OK, "%s", last_error());
  if (llama == NULL || qwen == NULL) return finish();
  CHECK(rl_cache_new(qwen, &foreign) == RL_OK);
  test_model(llama, foreign, false);
  test_model(qwen, NULL, true);
  CHECK(rl_cache_free(foreign) == RL_OK && rl_model_free(llama) == RL_OK && rl_model_free(qwen) == RL_OK);
  tiny_checkpoint_remove(&plain);
  tiny_checkpoint_remove(&hybrid);
  return finish();
}
