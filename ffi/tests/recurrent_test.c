/* Models with recurrent layers: their states in the cache, and undoing verified tokens. Equal means equal bits, unless said otherwise. */
#include <math.h>
#include <stdbool.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_qwen3_5.h"

enum { NUM_TOKENS = 150, CAPACITY = 160 };

static int32_t tokens[NUM_TOKENS];
static char error_text[1024];
static const char* last_error(void) { return rl_last_error(error_text, sizeof error_text), error_text; }

static float distance(const float* a, const float* b, int count) {
  float worst = 0;
  for (int i = 0; i < count; i++) worst = fmaxf(worst, fabsf(a[i] - b[i]));
  return worst;
}

static bool equal(const float* a, const float* b) { return memcmp(a, b, TINY_VOCAB * sizeof *a) == 0; }

/* One row's tokens from the shared sequence; the logits of its last `outputs`. */
static void feed(rl_model* m, rl_cache* c, rl_output* o, rl_row row, float* logits) {
  int32_t status = rl_forward(m, c, o, tokens + row.offset, row.count, &row, 1);
  CHECK_VALUES(status == RL_OK, "%s", last_error());
  if (row.outputs > 0) CHECK(rl_output_read(o, logits, (int64_t)row.outputs * TINY_VOCAB) == RL_OK);
}

static void feed_singly(rl_model* m, rl_cache* c, rl_output* o, int slot, int from, int to, float* logits) {
  for (int i = from; i < to; i++) feed(m, c, o, (rl_row){slot, i, 1, 1, 0}, logits);
}

static void test_cuts(rl_model* m, rl_cache* c, rl_output* o) {
  static float whole[NUM_TOKENS * TINY_VOCAB], part[NUM_TOKENS * TINY_VOCAB];
  feed(m, c, o, (rl_row){0, 0, NUM_TOKENS, NUM_TOKENS, 0}, whole);
  const float* last = whole + (NUM_TOKENS - 1) * TINY_VOCAB;
  CHECK(isfinite(last[0]) && distance(last, whole, TINY_VOCAB) > 1e-2f);

  /* products over chunks and the loop over tokens agree at every position */
  for (int i = 0; i < NUM_TOKENS; i++) {
    feed(m, c, o, (rl_row){1, i, 1, 1, 0}, part);
    CHECK_VALUES(distance(part, whole + i * TINY_VOCAB, TINY_VOCAB) < 2e-4f, "position %d", i);
  }
  feed(m, c, o, (rl_row){2, 0, 67, 0, 0}, part);
  feed(m, c, o, (rl_row){2, 67, NUM_TOKENS - 67, 1, 0}, part);
  CHECK(distance(part, last, TINY_VOCAB) < 2e-4f);

  /* batch-invariant: the same bits however the tokens are cut */
  if (rl_batch_invariant(1) != RL_OK) return;
  feed(m, c, o, (rl_row){0, 0, NUM_TOKENS, 1, 0}, whole);
  feed(m, c, o, (rl_row){1, 0, 67, 0, 0}, part);
  feed(m, c, o, (rl_row){1, 67, NUM_TOKENS - 67, 1, 0}, part);
  CHECK(equal(part, whole));
  CHECK(rl_batch_invariant(0) == RL_OK);
}

static void test_slots(rl_model* m, rl_cache* c, rl_output* o) {
  float alone[TINY_VOCAB], part[3 * TINY_VOCAB];
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 3, 32) == RL_OK);
  feed_singly(m, c, o, 0, 0, 12, alone);

  /* a new row starts from nothing in a slot that another row left, alone and beside a row that goes on */
  feed_singly(m, c, o, 2, 0, 20, part);
  feed_singly(m, c, o, 2, 0, 12, part);
  CHECK(equal(part, alone));
  feed_singly(m, c, o, 1, 0, 7, part);
  const int32_t two[] = {tokens[7], tokens[0]};
  const rl_row beside[] = {{1, 7, 1, 1, 0}, {2, 0, 1, 1, 0}};
  CHECK(rl_forward(m, c, o, two, 2, beside, 2) == RL_OK && rl_output_read(o, part, 2 * TINY_VOCAB) == RL_OK);
  feed_singly(m, c, o, 1, 8, 12, part);
  CHECK(equal(part, alone));
  feed_singly(m, c, o, 2, 1, 12, part);
  CHECK(equal(part, alone));

  /* moved, with more slots and more room */
  feed_singly(m, c, o, 2, 0, 11, part);
  CHECK(rl_cache_resize(c, 5, 64) == RL_OK && rl_cache_move(c, 2, 0, 11) == RL_OK && rl_cache_clear(c, 2) == RL_OK);
  CHECK(rl_cache_resize(c, 1, 64) == RL_OK);
  feed(m, c, o, (rl_row){0, 11, 1, 1, 0}, part);
  CHECK(equal(part, alone));

  /* a state has the same size whatever the row's length and the cache's room */
  feed_singly(m, c, o, 0, 0, 2, part);
  CHECK(rl_cache_resize(c, 2, 2) == RL_OK && rl_cache_move(c, 0, 1, 2) == RL_OK && rl_cache_resize(c, 2, 64) == RL_OK);
  feed_singly(m, c, o, 1, 2, 12, part);
  CHECK(equal(part, alone));

  /* a cleared slot is like one that was never used */
  CHECK(rl_cache_clear(c, 1) == RL_OK);
  feed(m, c, o, (rl_row){1, 11, 1, 1, 0}, part);
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 2, 64) == RL_OK);
  feed(m, c, o, (rl_row){1, 11, 1, 1, 0}, part + TINY_VOCAB);
  CHECK(equal(part, part + TINY_VOCAB) && !equal(part, alone));
}

enum { LENGTH = 9, COUNT = 5 };

/* Verified rows beside plain ones. `expected`: the logits of a row of LENGTH + 2 tokens. */
static void test_keep_beside_plain(rl_model* m, rl_cache* c, rl_output* o, const float* expected) {
  float part[TINY_VOCAB], rejected[TINY_VOCAB];

  /* rows of different counts, of which one is plain; without keeping, the rejected tokens stay */
  feed_singly(m, c, o, 0, 0, LENGTH, part);
  feed_singly(m, c, o, 2, 0, LENGTH, part);
  const int32_t mixed[] = {tokens[LENGTH], 1, 2, tokens[0], tokens[LENGTH], 3};
  const rl_row ragged[] = {{0, LENGTH, 3, 1, RL_ROW_VERIFY}, {1, 0, 1, 1, 0}, {2, LENGTH, 2, 1, RL_ROW_VERIFY}};
  CHECK(rl_forward(m, c, o, mixed, 6, ragged, 3) == RL_OK);
  CHECK(rl_cache_keep(c, (const int32_t[]){0}, (const int32_t[]){1}, 1) == RL_OK);
  feed(m, c, o, (rl_row){0, LENGTH + 1, 1, 1, 0}, part);
  feed(m, c, o, (rl_row){2, LENGTH + 1, 1, 1, 0}, rejected);
  CHECK(equal(part, expected) && distance(rejected, expected, TINY_VOCAB) > 1e-3f);
  feed_singly(m, c, o, 1, 1, LENGTH + 2, part);
  CHECK(equal(part, expected));

  /* neighbours of the same count, of which one is plain */
  feed_singly(m, c, o, 1, 0, LENGTH, part);
  const int32_t pairs[] = {tokens[0], tokens[1], tokens[LENGTH], 3};
  const rl_row neighbours[] = {{0, 0, 2, 1, 0}, {1, LENGTH, 2, 1, RL_ROW_VERIFY}};
  CHECK(rl_forward(m, c, o, pairs, 4, neighbours, 2) == RL_OK);
  CHECK(rl_cache_keep(c, (const int32_t[]){1}, (const int32_t[]){1}, 1) == RL_OK);
  feed(m, c, o, (rl_row){1, LENGTH + 1, 1, 1, 0}, part);
  CHECK(equal(part, expected));
}

/* Three rows verify at once and keep different numbers of tokens; slot 3 is verified too, and not named. */
static void test_keep(rl_model* m, rl_cache* c, rl_output* o) {
  float expected[4][TINY_VOCAB], part[TINY_VOCAB];
  const int kept_of_slot[] = {1, 3, COUNT, COUNT};
  CHECK(rl_cache_resize(c, 0, 0) == RL_OK && rl_cache_resize(c, 4, 64) == RL_OK);
  for (int slot = 0; slot < 4; slot++) feed_singly(m, c, o, 0, 0, LENGTH + kept_of_slot[slot] + 1, expected[slot]);
  for (int slot = 0; slot < 4; slot++) feed_singly(m, c, o, slot, 0, LENGTH, part);
  int32_t packed[4 * COUNT];
  rl_row rows[4];
  for (int slot = 0; slot < 4; slot++) {
    rows[slot] = (rl_row){slot, LENGTH, COUNT, COUNT, RL_ROW_VERIFY};
    for (int i = 0; i < COUNT; i++) packed[slot * COUNT + i] = i < kept_of_slot[slot] ? tokens[LENGTH + i] : (tokens[LENGTH + i] + 5) % TINY_VOCAB;
  }
  CHECK_VALUES(rl_forward(m, c, o, packed, 4 * COUNT, rows, 4) == RL_OK, "%s", last_error());
  const int32_t slots[] = {2, 0, 1}, kept[] = {COUNT, 1, 3};
  CHECK_VALUES(rl_cache_keep(c, slots, kept, 3) == RL_OK, "%s", last_error());
  for (int slot = 0; slot < 4; slot++) {
    feed(m, c, o, (rl_row){slot, LENGTH + kept_of_slot[slot], 1, 1, 0}, part);
    CHECK_VALUES(equal(part, expected[slot]), "slot %d", slot);
  }
  test_keep_beside_plain(m, c, o, expected[0]);
}

static void test_bad_keep(rl_model* m, rl_cache* c, rl_output* o) {
  const int32_t zero[] = {0}, one[] = {1}, three[] = {3};
  const rl_row verify = {0, 0, 2, 1, RL_ROW_VERIFY}, plain = {0, 0, 2, 1, 0}, unknown = {0, 0, 1, 1, 2}, wide = {0, 0, 65, 1, RL_ROW_VERIFY};
  CHECK(rl_cache_resize(c, 2, 80) == RL_OK);
  CHECK(rl_forward(m, c, o, tokens, 1, &unknown, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "flags 2") != NULL);
  CHECK(rl_forward(m, c, o, tokens, 65, &wide, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "65") != NULL);
  CHECK(rl_forward(m, c, o, tokens, 2, &plain, 1) == RL_OK && rl_cache_keep(c, zero, one, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_forward(m, c, o, tokens, 2, &verify, 1) == RL_OK);
  CHECK(rl_cache_keep(NULL, zero, one, 1) == RL_ERR_ARGUMENT && rl_cache_keep(c, NULL, one, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_keep(c, zero, NULL, 1) == RL_ERR_ARGUMENT && rl_cache_keep(c, zero, one, 0) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_keep(c, zero, zero, 1) == RL_ERR_ARGUMENT && rl_cache_keep(c, zero, three, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_cache_keep(c, one, one, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "slot 1") != NULL);
  CHECK(rl_cache_keep(c, zero, one, 1) == RL_OK && rl_cache_keep(c, zero, one, 1) == RL_ERR_ARGUMENT); /* only once */
  CHECK(rl_forward(m, c, o, tokens, 2, &verify, 1) == RL_OK && rl_cache_clear(c, 1) == RL_OK);
  CHECK(rl_cache_keep(c, zero, one, 1) == RL_ERR_ARGUMENT);
}

static void test_bad_loads(const tiny_checkpoint* checkpoint) {
  static const char* const changes[][3] = {
      {"linear_attention,full", "sliding_attention,full", "layer_types"},
      {"linear_num_key_heads=2", "linear_num_key_heads=3", "no multiple"},
      {"linear_value_head_dim=5", "linear_value_head_dim=6", "in_proj_qkv"},
      {"linear_conv_kernel_dim=4", "linear_conv_kernel_dim=3", "conv1d"},
      {"rotary_dims=2", "rotary_dims=8", "rotary_dims"},
      {"tie_word_embeddings=true", "tie_word_embeddings=false", "lm_head"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    char config[sizeof hybrid_config + 64];
    rl_model* m = NULL;
    const char* at = strstr(hybrid_config, changes[i][0]);
    snprintf(config, sizeof config, "%.*s%s%s", (int)(at - hybrid_config), hybrid_config, changes[i][1], at + strlen(changes[i][0]));
    CHECK_VALUES(rl_model_load(config, checkpoint->tensors, &m) == RL_ERR_MODEL && strstr(last_error(), changes[i][2]) != NULL, "%s: %s", changes[i][1],
                 last_error());
  }
}

static void test_bad_mixtures(const tiny_checkpoint* checkpoint) {
  static const char* const mixtures[][2] = {
      {"num_experts=4\nnum_experts_per_tok=5\nmoe_intermediate_size=10\nshared_expert_intermediate_size=12\n", "num_experts_per_tok is 5"},
      {"num_experts=3\nnum_experts_per_tok=2\nmoe_intermediate_size=10\nshared_expert_intermediate_size=12\n", "mlp.gate.weight"},
      {"num_experts=4\nnum_experts_per_tok=2\nmoe_intermediate_size=11\nshared_expert_intermediate_size=12\n", "gate_up_proj"},
      {"num_experts=4\nnum_experts_per_tok=2\nmoe_intermediate_size=10\nshared_expert_intermediate_size=13\n", "shared_expert"},
      {"num_experts=4\nnum_experts_per_tok=2\nmoe_intermediate_size=10\n", "no shared_expert_intermediate_size"},
  };
  for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
    char config[sizeof hybrid_config + 160];
    rl_model* m = NULL;
    snprintf(config, sizeof config, "%s%s", hybrid_config, mixtures[i][0]);
    CHECK_VALUES(rl_model_load(config, checkpoint->tensors, &m) == RL_ERR_MODEL && strstr(last_error(), mixtures[i][1]) != NULL, "%s: %s", mixtures[i][1],
                 last_error());
  }
}

/* A model in all that rows may do; its logits after the first token. */
static void test_model(const tiny_checkpoint* checkpoint, const char* more_config, float* first) {
  char config[sizeof hybrid_config + 200];
  rl_model* m = NULL;
  rl_cache* c = NULL;
  rl_output* o = NULL;
  int64_t info[9], cache_info[3];
  snprintf(config, sizeof config, "%s%s", hybrid_config, more_config);
  CHECK_VALUES(rl_model_load(config, checkpoint->tensors, &m) == RL_OK, "%s", last_error());
  if (m == NULL) return;
  int recurrent_bytes = 2 * 4 * (HYBRID_CHANNELS * (HYBRID_TAPS - 1) + HYBRID_VALUES * HYBRID_KEY_DIM), kv_bytes = 2 * 4 * TINY_KV_HEADS * TINY_HEAD_DIM;
  CHECK(rl_model_info(m, info) == RL_OK && info[4] == kv_bytes && info[5] == recurrent_bytes);
  CHECK(rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK && rl_cache_resize(c, 3, CAPACITY) == RL_OK);
  CHECK(rl_cache_info(c, cache_info) == RL_OK && cache_info[2] == 3 * ((info[7] ? 0 : CAPACITY) * kv_bytes + recurrent_bytes));
  feed(m, c, o, (rl_row){0, 0, 1, 1, 0}, first);
  test_cuts(m, c, o);
  test_slots(m, c, o);
  test_keep(m, c, o);
  test_bad_keep(m, c, o);
  CHECK(rl_output_free(o) == RL_OK && rl_cache_free(c) == RL_OK && rl_model_free(m) == RL_OK);
}

int main(void) {
  tiny_checkpoint checkpoint;
  float dense[TINY_VOCAB], experts[TINY_VOCAB], gguf[TINY_VOCAB];
  for (int i = 0; i < NUM_TOKENS; i++) tokens[i] = (i * i * 7 + 3 * i + 1) % TINY_VOCAB;
  hybrid_checkpoint_write(&checkpoint);
  test_bad_loads(&checkpoint);
  test_bad_mixtures(&checkpoint);
  test_model(&checkpoint, "", dense);
  test_model(&checkpoint, hybrid_experts, experts);
  test_model(&checkpoint, hybrid_gguf, gguf);
  CHECK(distance(dense, experts, TINY_VOCAB) > 1e-2f && distance(dense, gguf, TINY_VOCAB) > 1e-2f);
  tiny_checkpoint_remove(&checkpoint);
  return finish();
}
