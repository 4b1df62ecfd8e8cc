/* Model, cache and forward through the public header, as a plain C caller: what they compute and what they refuse. */
#include <dirent.h>
#include <math.h>
#include <pthread.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_checkpoint.h"

enum { NUM_TOKENS = 11 };
static const int32_t prompt[NUM_TOKENS] = {1, 5, 9, 30, 2, 2, 17, 36, 0, 11, 23};

static char error_text[1024];
static const char* last_error(void) { return rl_last_error(error_text, sizeof error_text), error_text; }

/* Forward of one call; the logits of its last `outputs` rows. */
static int32_t forward(rl_model* m, rl_cache* c, rl_output* o, const int32_t* tokens, int num_tokens, rl_row row, float* logits) {
  int32_t status = rl_forward(m, c, o, tokens, num_tokens, &row, 1);
  if (status == RL_OK && row.outputs > 0) status = rl_output_read(o, logits, (int64_t)row.outputs * TINY_VOCAB);
  return status;
}

static float distance(const float* a, const float* b, int count) {
  float worst = 0;
  for (int i = 0; i < count; i++) worst = fmaxf(worst, fabsf(a[i] - b[i]));
  return worst;
}

static void test_forward(rl_model* m, rl_cache* c, rl_output* o) {
  float whole[NUM_TOKENS * TINY_VOCAB], part[NUM_TOKENS * TINY_VOCAB];
  CHECK(rl_cache_resize(c, 4, 16) == RL_OK);
  CHECK(forward(m, c, o, prompt, NUM_TOKENS, (rl_row){1, 0, NUM_TOKENS, NUM_TOKENS}, whole) == RL_OK);
  const float* last = whole + (NUM_TOKENS - 1) * TINY_VOCAB;
  CHECK(isfinite(last[0]) && distance(last, whole, TINY_VOCAB) > 1e-3f);

  /* in chunks, in another slot */
  CHECK(forward(m, c, o, prompt, 4, (rl_row){3, 0, 4, 0}, part) == RL_OK);
  CHECK(rl_output_read(o, part, TINY_VOCAB) == RL_ERR_ARGUMENT); /* no logits were asked for */
  CHECK(forward(m, c, o, prompt + 4, NUM_TOKENS - 4, (rl_row){3, 4, NUM_TOKENS - 4, 1}, part) == RL_OK);
  CHECK(distance(part, last, TINY_VOCAB) < 1e-4f);

  /* a row that is moved, after the cache grew and while a neighbour shares the step */
  CHECK(forward(m, c, o, prompt, 10, (rl_row){3, 0, 10, 0}, part) == RL_OK);
  CHECK(rl_cache_resize(c, 5, 40) == RL_OK);
  CHECK(rl_cache_move(c, 3, 0, 10) == RL_OK);
  CHECK(rl_cache_clear(c, 3) == RL_OK);
  const int32_t tokens[] = {prompt[10], 7, 8, 9};
  const rl_row rows[] = {{0, 10, 1, 1}, {4, 0, 3, 2}};
  CHECK(rl_forward(m, c, o, tokens, 4, rows, 2) == RL_OK);
  CHECK(rl_output_read(o, part, 3 * TINY_VOCAB) == RL_OK);
  CHECK(distance(part, last, TINY_VOCAB) < 1e-4f);
  CHECK(rl_output_read(o, part, 3 * TINY_VOCAB - 1) == RL_ERR_ARGUMENT);

  /* a cleared slot holds zeros: the logits are not those of its former content */
  CHECK(forward(m, c, o, &prompt[10], 1, (rl_row){3, 10, 1, 1}, part) == RL_OK);
  CHECK(distance(part, last, TINY_VOCAB) > 1e-3f);

  /* a sparse cache counts what was written: 11 tokens of the moved row, 11 behind the cleared slot's end, 3 of the neighbour, 11 of the first one */
  int64_t info[3], of_model[9];
  CHECK(rl_model_info(m, of_model) == RL_OK && rl_cache_info(c, info) == RL_OK && info[0] == 5 && info[1] == 40);
  CHECK_VALUES(info[2] == of_model[4] * (of_model[7] ? 3 * NUM_TOKENS + 3 : 5 * 40), "%lld bytes are held", (long long)info[2]);
  CHECK(rl_cache_release(c, 4) == RL_OK && rl_cache_release(c, 5) == RL_ERR_ARGUMENT && rl_cache_release(NULL, 0) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_info(c, info) == RL_OK && info[2] == of_model[4] * (of_model[7] ? 3 * NUM_TOKENS : 5 * 40));
}

static void test_bad_forward(rl_model* m, rl_cache* c, rl_output* o) {
  const int32_t bad[] = {TINY_VOCAB}, negative[] = {-1};
  const rl_row row = {0, 0, 1, 1};
  CHECK(rl_cache_resize(c, 2, 16) == RL_OK);
  CHECK(rl_forward(NULL, c, o, prompt, 1, &row, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, NULL, o, prompt, 1, &row, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, NULL, 1, &row, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, bad, 1, &row, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "37, expected 0 … 36") != NULL);
  CHECK(rl_forward(m, c, o, negative, 1, &row, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, prompt, 0, &row, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, prompt, 2, &row, 1) == RL_ERR_ARGUMENT); /* the rows count one token */
  CHECK(rl_forward(m, c, o, prompt, 1, &(rl_row){2, 0, 1, 1}, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, prompt, 1, &(rl_row){-1, 0, 1, 1}, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, prompt, 1, &(rl_row){0, 16, 1, 1}, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, prompt, 1, &(rl_row){0, 0, 1, 2}, 1) == RL_ERR_ARGUMENT);
  const rl_row twice[] = {{0, 0, 1, 1}, {0, 1, 1, 1}};
  CHECK(rl_forward(m, c, o, prompt, 2, twice, 2) == RL_ERR_ARGUMENT); /* one slot for two rows */
  CHECK(rl_cache_move(c, 0, 2, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_move(c, 0, 1, 17) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_clear(c, 9) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_resize(c, -1, 4) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_resize(c, 2, 0) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_resize(NULL, 2, 2) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_info(c, NULL) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK);
  CHECK(rl_forward(m, c, o, prompt, 1, &row, 1) == RL_ERR_ARGUMENT); /* no slots any more */
}

static const rl_sampling greedy = {.top_p = 1, .typical_p = 1, .num_top_logprobs = -1, .mask = -1};

/* Forwards that go on with draws which nobody has waited for, against the same tokens one by one. */
static void test_forward_drawn(rl_model* m, rl_cache* c, rl_output* o) {
  enum { STEPS = 6 };
  rl_output* outputs[2] = {o, NULL};
  rl_sampled drawn[2];
  float logits[2 * TINY_VOCAB], expected[2 * TINY_VOCAB];
  int32_t tokens[STEPS][2];
  const rl_sampling rows[] = {greedy, greedy};
  CHECK(rl_output_new(&outputs[1]) == RL_OK && rl_cache_resize(c, 4, 40) == RL_OK);
  for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
    int first = 2 * is_ahead;
    CHECK(rl_forward(m, c, o, prompt, 7, (const rl_row[]){{first, 0, 4, 1}, {first + 1, 0, 3, 1}}, 2) == RL_OK);
    for (int step = 0; step < STEPS; step++) {
      rl_output *now = outputs[is_ahead * (step % 2)], *next = outputs[is_ahead * ((step + 1) % 2)];
      const rl_row one[] = {{first, 4 + step, 1, 1}, {first + 1, 3 + step, 1, 1}};
      CHECK(rl_sample_start(now, rows, 2, NULL, 0, NULL, 0) == RL_OK);
      if (is_ahead) CHECK(rl_forward_drawn(m, c, next, now, one, 2) == RL_OK);
      CHECK(rl_sample_finish(now, drawn, 2, NULL, NULL) == RL_OK);
      for (int row = 0; row < 2; row++) {
        if (is_ahead) CHECK_VALUES(drawn[row].token == tokens[step][row], "step %d, row %d: %d", step, row, drawn[row].token);
        tokens[step][row] = drawn[row].token;
      }
      if (!is_ahead) CHECK(rl_forward(m, c, o, tokens[step], 2, one, 2) == RL_OK);
    }
    CHECK(rl_output_read(outputs[is_ahead * (STEPS % 2)], is_ahead ? logits : expected, 2 * TINY_VOCAB) == RL_OK);
  }
  CHECK(memcmp(logits, expected, sizeof logits) == 0);
  CHECK_VALUES(tokens[0][0] != tokens[0][1], "both rows draw %d", tokens[0][0]);

  const rl_row one = {0, 12, 1, 1}, two[] = {{0, 12, 1, 1}, {1, 12, 1, 1}};
  CHECK(rl_forward_drawn(m, c, outputs[1], NULL, &one, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward_drawn(m, c, outputs[1], o, two, 2) == RL_ERR_ARGUMENT && strstr(last_error(), "2 rows") != NULL); /* nothing was drawn */
  CHECK(rl_sample_start(o, rows, 2, NULL, 0, NULL, 0) == RL_OK);
  CHECK(rl_forward_drawn(m, c, o, o, two, 2) == RL_ERR_ARGUMENT && rl_forward_drawn(m, c, outputs[1], o, &one, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward_drawn(m, c, outputs[1], o, two, 2) == RL_OK && rl_output_free(outputs[1]) == RL_OK);
}

/* A row that draws nothing is told, and goes on with token 0. */
static void test_broken_draw(rl_model* m, rl_cache* c, rl_output* o) {
  float logits[TINY_VOCAB], expected[TINY_VOCAB];
  rl_output* next = NULL;
  rl_sampled drawn;
  for (int i = 0; i < TINY_VOCAB; i++) logits[i] = NAN;
  CHECK(rl_output_new(&next) == RL_OK && rl_cache_resize(c, 1, 16) == RL_OK && rl_output_write(o, logits, 1, TINY_VOCAB, 0) == RL_OK);
  CHECK(rl_sample_start(o, &greedy, 1, NULL, 0, NULL, 0) == RL_OK);
  CHECK(rl_forward_drawn(m, c, next, o, &(rl_row){0, 0, 1, 1}, 1) == RL_OK);
  CHECK(rl_sample_finish(o, &drawn, 1, NULL, NULL) == RL_OK && drawn.token == -1 && drawn.flags == RL_ROW_BROKEN);
  CHECK(rl_output_read(next, logits, TINY_VOCAB) == RL_OK);
  CHECK(forward(m, c, o, (const int32_t[]){0}, 1, (rl_row){0, 0, 1, 1}, expected) == RL_OK && memcmp(logits, expected, sizeof logits) == 0);
  CHECK(rl_output_free(next) == RL_OK);
}

static int32_t load_with(const char* config, const char* tensors) {
  rl_model* m = NULL;
  int32_t status = rl_model_load(config, tensors, &m);
  if (status == RL_OK) rl_model_free(m);
  return status;
}

static void test_bad_loads(const tiny_checkpoint* checkpoint) {
  char config[sizeof tiny_config + 32], tensors[sizeof checkpoint->tensors];
  CHECK(rl_model_load(NULL, checkpoint->tensors, NULL) == RL_ERR_ARGUMENT);
  CHECK(load_with("no equals sign\n", checkpoint->tensors) == RL_ERR_ARGUMENT);
  CHECK(load_with("model_type=unheard_of\n", checkpoint->tensors) == RL_ERR_MODEL && strstr(last_error(), "unheard_of") != NULL);
  CHECK(load_with("model_type=llama\n", checkpoint->tensors) == RL_ERR_MODEL && strstr(last_error(), "num_hidden_layers") != NULL);
  CHECK(load_with(tiny_config, "") == RL_ERR_MODEL && strstr(last_error(), "model.embed_tokens.weight") != NULL);
  CHECK(load_with(tiny_config, "a\tF32\n") == RL_ERR_ARGUMENT);
  CHECK(load_with(tiny_config, "a\tF31\t/nowhere\t0\t4\t1\n") == RL_ERR_MODEL);
  CHECK(load_with(tiny_config, "a\tF32\t/nowhere/at/all\t0\t4\t1\n") == RL_ERR_MODEL);
  snprintf(tensors, sizeof tensors, "a\tF32\t%s\t%ld\t4\t1\n", checkpoint->path, checkpoint->offset - 3);
  CHECK(load_with(tiny_config, tensors) == RL_ERR_MODEL); /* ends behind the file */
  snprintf(tensors, sizeof tensors, "a\tF32\t%s\t0\t8\t1\n", checkpoint->path);
  CHECK(load_with(tiny_config, tensors) == RL_ERR_MODEL); /* bytes do not fit the shape */
  snprintf(tensors, sizeof tensors, "a\tF32\t%s\t0\t4\t-1\n", checkpoint->path);
  CHECK(load_with(tiny_config, tensors) == RL_ERR_MODEL);
  snprintf(config, sizeof config, "%s", tiny_config);
  memcpy(strstr(config, "hidden_size=24"), "hidden_size=32", 14);
  CHECK(load_with(config, checkpoint->tensors) == RL_ERR_MODEL && strstr(last_error(), "expected [37, 32]") != NULL);
  snprintf(config, sizeof config, "%s", tiny_config);
  memcpy(strstr(config, "num_key_value_heads=2"), "num_key_value_heads=3", 21);
  CHECK(load_with(config, checkpoint->tensors) == RL_ERR_MODEL);
  CHECK(rl_model_info(NULL, NULL) == RL_ERR_ARGUMENT);
  CHECK(rl_model_free(NULL) == RL_OK && rl_cache_free(NULL) == RL_OK && rl_output_free(NULL) == RL_OK);
}

typedef struct handles {
  rl_model* model;
  rl_cache* cache;
  rl_output* output;
  int32_t forward, resize, free;
} handles;

static void* use_from_another_thread(void* argument) {
  handles* h = argument;
  h->forward = rl_forward(h->model, h->cache, h->output, prompt, 1, &(rl_row){0, 0, 1, 1}, 1);
  h->resize = rl_cache_resize(h->cache, 1, 16);
  h->free = rl_model_free(h->model);
  return NULL;
}

static void test_other_thread(rl_model* m, rl_cache* c, rl_output* o) {
  handles h = {m, c, o, 0, 0, 0};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use_from_another_thread, &h) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(h.forward == RL_ERR_THREAD && h.resize == RL_ERR_THREAD && h.free == RL_ERR_THREAD);
}

static int num_threads(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/task");
  while (folder != NULL && readdir(folder) != NULL) count++;
  if (folder != NULL) closedir(folder);
  return count;
}

static void* serve_once(void* tensors) {
  rl_model* m = NULL;
  rl_cache* c = NULL;
  rl_output* o = NULL;
  rl_sampled drawn;
  const rl_sampling warm = {.temperature = 1, .top_p = 1, .typical_p = 1, .num_top_logprobs = -1, .mask = -1};
  CHECK(rl_model_load(tiny_config, tensors, &m) == RL_OK && rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK);
  CHECK(rl_cache_resize(c, 1, 16) == RL_OK && rl_forward(m, c, o, prompt, 4, &(rl_row){0, 0, 4, 1}, 1) == RL_OK);
  CHECK(rl_sample_start(o, &warm, 1, NULL, 0, NULL, 0) == RL_OK && rl_sample_finish(o, &drawn, 1, NULL, NULL) == RL_OK && drawn.token >= 0);
  CHECK(rl_output_free(o) == RL_OK && rl_cache_free(c) == RL_OK && rl_model_free(m) == RL_OK);
  return NULL;
}

/* Models that come and go, each in a thread of its own, leave no threads behind. */
static void test_threads(const tiny_checkpoint* checkpoint) {
  int before = 0;
  for (int i = 0; i < 5; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, serve_once, (void*)checkpoint->tensors) == 0 && pthread_join(thread, NULL) == 0);
    if (i == 0) before = num_threads(); /* the workers stay */
  }
  CHECK_VALUES(num_threads() == before, "%d threads, %d after the first model", num_threads(), before);
}

static void test_system(void) {
  char info[512];
  uint64_t memory[4];
  CHECK(rl_abi_version() == RL_ABI_VERSION);
  CHECK(rl_build_info(info, sizeof info) > 0 && strstr(info, "mlx=0.") != NULL && strstr(info, "device=") != NULL);
  CHECK(rl_build_info(NULL, 0) == (int32_t)strlen(info));
  CHECK(rl_memory(memory) == RL_OK && memory[1] >= memory[0]);
  CHECK(rl_memory(NULL) == RL_ERR_ARGUMENT);
  CHECK(rl_memory_limit(64 << 20) == RL_OK);
  CHECK(rl_memory(memory) == RL_OK && memory[3] == 64 << 20);
}

int main(void) {
  tiny_checkpoint checkpoint;
  tiny_checkpoint_write(&checkpoint);
  rl_model* m = NULL;
  rl_cache* c = NULL;
  rl_output* o = NULL;
  int64_t info[9];
  test_system();
  test_bad_loads(&checkpoint);
  CHECK(rl_model_load(tiny_config, checkpoint.tensors, &m) == RL_OK || (puts(last_error()), 0));
  if (m == NULL) return finish();
  CHECK(rl_model_info(m, info) == RL_OK && info[1] == TINY_VOCAB && info[2] == TINY_HIDDEN && info[3] == TINY_LAYERS && info[6] == 0);
  CHECK(info[4] == 2 * TINY_LAYERS * TINY_KV_HEADS * TINY_HEAD_DIM * 4 && info[0] > 0);
  CHECK(rl_cache_new(NULL, &c) == RL_ERR_ARGUMENT && rl_output_new(NULL) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK);
  test_forward(m, c, o);
  test_bad_forward(m, c, o);
  if (info[8] == 1) test_forward_drawn(m, c, o), test_broken_draw(m, c, o), test_threads(&checkpoint);
  test_other_thread(m, c, o);
  CHECK(rl_output_free(o) == RL_OK && rl_cache_free(c) == RL_OK && rl_model_free(m) == RL_OK);
  tiny_checkpoint_remove(&checkpoint);
  return finish();
}
