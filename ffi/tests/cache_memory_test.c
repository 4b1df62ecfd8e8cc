/* A sparse cache takes memory for what its rows have written, and gives it back when they leave. Elsewhere there is nothing to test. */
#include <sys/resource.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_checkpoint.h"

enum { HIDDEN = 64, NUM_TOKENS = 20000, CAPACITY = 1 << 16, NUM_SLOTS = 16, KB = 1 << 10 };

static const char config[] =
    "model_type=llama\nvocab_size=32\nhidden_size=64\nintermediate_size=64\nnum_hidden_layers=2\nnum_attention_heads=2\nnum_key_value_heads=2\n"
    "head_dim=64\nrms_norm_eps=1e-5\nrope_theta=10000\nrope_type=default\ntie_word_embeddings=true\ndtype=float32\nquant_bits=0\n"
    "quant_group_size=0\n";

static rl_cache* cache;
static int64_t token_bytes;

/* Memory of this process in kB; 0 where the system does not tell, or a sanitizer keeps what was freed. */
static long resident_kb(void) {
  char line[256];
  long kb = 0;
#ifdef __SANITIZE_ADDRESS__
  return 0;
#endif
  FILE* status = fopen("/proc/self/status", "r");
  if (status == NULL) return 0;
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "VmRSS: %ld kB", &kb);
  fclose(status);
  return kb;
}

static rl_model* load_model(tiny_checkpoint* c) {
  static const char* const linears[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  rl_model* m = NULL;
  tiny_checkpoint_open(c, 1);
  tiny_tensor(c, 32, HIDDEN, 1, 0, "model.embed_tokens.weight");
  tiny_tensor(c, HIDDEN, 0, 1, 1, "model.norm.weight");
  for (int i = 0; i < 2; i++) {
    tiny_tensor(c, HIDDEN, 0, 1, 1, "model.layers.%d.input_layernorm.weight", i);
    tiny_tensor(c, HIDDEN, 0, 1, 1, "model.layers.%d.post_attention_layernorm.weight", i);
    for (int k = 0; k < 3; k++) tiny_tensor(c, 128, HIDDEN, 1, 0, "model.layers.%d.%s.weight", i, linears[k]);
    tiny_tensor(c, HIDDEN, 128, 1, 0, "model.layers.%d.self_attn.o_proj.weight", i);
    tiny_tensor(c, HIDDEN, HIDDEN, 1, 0, "model.layers.%d.mlp.gate_proj.weight", i);
    tiny_tensor(c, HIDDEN, HIDDEN, 1, 0, "model.layers.%d.mlp.up_proj.weight", i);
    tiny_tensor(c, HIDDEN, HIDDEN, 1, 0, "model.layers.%d.mlp.down_proj.weight", i);
  }
  fclose(c->file);
  CHECK(rl_model_load(config, c->tensors, &m) == RL_OK);
  return m;
}

/* So many tokens are held, and the memory beside `empty_kb` is theirs. */
static void check_held(const char* when, int num_tokens, long empty_kb) {
  int64_t info[3];
  CHECK(rl_cache_info(cache, info) == RL_OK);
  CHECK_VALUES(info[2] == num_tokens * token_bytes, "%s: %lld bytes are told for %d tokens", when, (long long)info[2], num_tokens);
  long expected = (long)(info[2] / KB), found = resident_kb() - empty_kb, slack = 4 * KB;
  CHECK_VALUES(found > expected - slack && found < expected + slack, "%s: %ld kB are taken for %ld kB", when, found, expected);
}

static rl_page* make_page(int num_tokens) {
  rl_page* page = NULL;
  size_t num_bytes = (size_t)(num_tokens * token_bytes);
  uint8_t* bytes = malloc(num_bytes);
  CHECK(bytes != NULL);
  memset(bytes, 1, num_bytes);
  CHECK(rl_page_import(cache, num_tokens, 0, bytes, (int64_t)num_bytes, &page) == RL_OK);
  free(bytes);
  return page;
}

static void test_memory(void) {
  rl_page* page = make_page(NUM_TOKENS);
  CHECK(rl_cache_resize(cache, 1, 64) == RL_OK);
  /* what a first use takes for good, of malloc and of MLX, is no concern here */
  CHECK(rl_cache_resize(cache, 2, NUM_TOKENS) == RL_OK && rl_page_load(cache, page, 0, 0) == RL_OK && rl_cache_resize(cache, 0, 0) == RL_OK);
  long empty = resident_kb();
  CHECK(rl_cache_resize(cache, NUM_SLOTS, CAPACITY) == RL_OK);
  check_held("empty", 0, empty);
  CHECK(rl_page_load(cache, page, 3, 0) == RL_OK && rl_page_load(cache, page, 5, 0) == RL_OK);
  check_held("two rows", 2 * NUM_TOKENS, empty);
  CHECK(rl_cache_move(cache, 5, 3, NUM_TOKENS - 1000) == RL_OK);
  check_held("one row moved over the other one", NUM_TOKENS - 1000, empty);
  CHECK(rl_cache_resize(cache, 4, 2 * CAPACITY) == RL_OK);
  check_held("after growth", NUM_TOKENS - 1000, empty);
  CHECK(rl_cache_release(cache, 3) == RL_OK);
  check_held("after the row has left", 0, empty);
  CHECK(rl_page_load(cache, page, 1, 0) == RL_OK && rl_cache_clear(cache, 1) == RL_OK);
  check_held("cleared", 0, empty);
  CHECK(rl_page_free(page) == RL_OK);
}

/* Parts of memory pages that cannot be given back would add up. */
static void test_many_short_rows(void) {
  enum { MANY = 256, SHORT = 60 };
  rl_page* page = make_page(SHORT);
  CHECK(rl_cache_resize(cache, 0, 0) == RL_OK && rl_cache_resize(cache, MANY, 1024) == RL_OK);
  long empty = resident_kb();
  for (int slot = 0; slot < MANY; slot++) CHECK(rl_page_load(cache, page, slot, 0) == RL_OK);
  check_held("short rows", MANY * SHORT, empty);
  for (int slot = 0; slot < MANY; slot++) CHECK(rl_cache_release(cache, slot) == RL_OK);
  check_held("after the short rows have left", 0, empty);
  CHECK(rl_page_free(page) == RL_OK);
}

/* Memory pages that a resize touches for the first time. */
static long faults_of_resize(int slots, int capacity) {
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  CHECK(rl_cache_resize(cache, slots, capacity) == RL_OK);
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

/* Within what was reserved a cache grows and shrinks without a copy; beyond it, it copies what is held. */
static void test_reserve(void) {
  enum { SHORT = 2000, FEW_FAULTS = 64 };
  rl_page *page = make_page(SHORT), *found = NULL;
  size_t num_bytes = (size_t)(SHORT * token_bytes);
  uint8_t *expected = malloc(num_bytes), *held = malloc(num_bytes);
  CHECK(expected != NULL && held != NULL && rl_page_export(page, expected, (int64_t)num_bytes) == RL_OK);
  CHECK(rl_cache_resize(cache, 0, 0) == RL_OK && rl_cache_reserve(cache, 4, 8192) == RL_OK && rl_cache_resize(cache, 2, SHORT) == RL_OK);
  CHECK(rl_page_load(cache, page, 1, 0) == RL_OK);
  long num_pages = (long)(num_bytes / 4096), grown = faults_of_resize(4, 8192);
  CHECK_VALUES(grown < FEW_FAULTS, "growing within what is reserved touches %ld pages", grown);
  long beyond = faults_of_resize(5, 9000);
  CHECK_VALUES(beyond > num_pages / 2, "growing beyond it touches %ld pages, the row has %ld", beyond, num_pages);
  CHECK(rl_page_save(cache, 1, 0, SHORT, 0, &found) == RL_OK && rl_page_export(found, held, (int64_t)num_bytes) == RL_OK);
  CHECK(memcmp(held, expected, num_bytes) == 0 && rl_page_free(found) == RL_OK);
  long empty = resident_kb() - (long)(num_bytes / KB);
  CHECK(rl_cache_resize(cache, 3, 1000) == RL_OK);
  check_held("shrunk", 1000, empty);
  CHECK(rl_cache_resize(cache, 3, SHORT) == RL_OK && rl_page_save(cache, 1, 0, SHORT, 0, &found) == RL_OK);
  CHECK(rl_page_export(found, held, (int64_t)num_bytes) == RL_OK && rl_page_free(found) == RL_OK);
  /* [layer][keys, values][head][token]: of every head the first half is there, and the rest is zeros. */
  size_t half = num_bytes / 16;
  for (size_t head = 0; head < 8; head++) memset(expected + (2 * head + 1) * half, 0, half);
  CHECK(memcmp(held, expected, num_bytes) == 0);
  CHECK(rl_cache_reserve(cache, 0, 1) == RL_ERR_ARGUMENT && rl_cache_reserve(cache, 1, -1) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_reserve(NULL, 1, 1) == RL_ERR_ARGUMENT);
  /* Address space that cannot be had is no error. */
  CHECK(rl_cache_resize(cache, 0, 0) == RL_OK && rl_cache_reserve(cache, 4096, 1 << 24) == RL_OK && rl_cache_resize(cache, 1, 64) == RL_OK);
  CHECK(rl_cache_resize(cache, 0, 0) == RL_OK && rl_page_free(page) == RL_OK);
  free(expected), free(held);
}

int main(void) {
  static tiny_checkpoint c;
  int64_t info[9] = {0};
  rl_model* m = load_model(&c);
  CHECK(m != NULL && rl_model_info(m, info) == RL_OK && rl_cache_new(m, &cache) == RL_OK);
  token_bytes = info[4];
  if (info[7] == 1 && resident_kb() > 0) test_memory(), test_many_short_rows(), test_reserve();
  CHECK(rl_cache_free(cache) == RL_OK && rl_model_free(m) == RL_OK);
  tiny_checkpoint_remove(&c);
  return finish();
}
