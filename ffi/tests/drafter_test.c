/* Drafters of all kinds: what they compute in batches and in parts, and what they refuse. */
#include <math.h>
#include <stdbool.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_qwen3_5.h"

enum { NUM_TOKENS = 20, DRAFT_VOCAB = 30, NUM_FEATURES = 2 };
static const int32_t tokens[NUM_TOKENS + 1] = {1, 5, 9, 30, 2, 2, 17, 36, 0, 11, 23, 8, 7, 6, 4, 33, 21, 12, 19, 3, 25};

static char error_text[1024];
static const char* last_error(void) { return rl_last_error(error_text, sizeof error_text), error_text; }

#define LLAMA_SIZES                                                                                                                    \
  "hidden_size=24\nintermediate_size=40\nnum_attention_heads=4\nnum_key_value_heads=2\nhead_dim=6\nrms_norm_eps=1e-5\nrope_theta=100\n" \
  "rope_type=default\ndtype=float32\nquant_bits=0\nquant_group_size=0\nnum_features=2\n"

static const char eagle3_config[] = "drafter_kind=eagle3\nnum_hidden_layers=2\ndraft_vocab_size=30\nnorm_before_fc=true\n" LLAMA_SIZES;
static const char dflash_config[] = "drafter_kind=dflash\nnum_hidden_layers=2\nlayer_types=full_attention,full_attention\n" LLAMA_SIZES;
static const char dflash_sliding_config[] =
    "drafter_kind=dflash\nnum_hidden_layers=1\nlayer_types=sliding_attention\nsliding_window=6\n" LLAMA_SIZES;

static void write_block(tiny_checkpoint* c, const char* layer, int width, bool has_head_norms) {
  int q = TINY_HEADS * TINY_HEAD_DIM, kv = TINY_KV_HEADS * TINY_HEAD_DIM;
  tiny_tensor(c, q, width, 1, 0, "%s.self_attn.q_proj.weight", layer);
  tiny_tensor(c, kv, width, 1, 0, "%s.self_attn.k_proj.weight", layer);
  tiny_tensor(c, kv, width, 1, 0, "%s.self_attn.v_proj.weight", layer);
  tiny_tensor(c, TINY_HIDDEN, q, 1, 0, "%s.self_attn.o_proj.weight", layer);
  if (has_head_norms) tiny_tensor(c, TINY_HEAD_DIM, 0, 0.2f, 1, "%s.self_attn.q_norm.weight", layer);
  if (has_head_norms) tiny_tensor(c, TINY_HEAD_DIM, 0, 0.2f, 1, "%s.self_attn.k_norm.weight", layer);
  hybrid_rest(c, layer);
}

static void write_ids(tiny_checkpoint* c, const char* name, int count, int64_t last) {
  for (int64_t i = 0; i < count; i++) fwrite(i == count - 1 ? &last : &(int64_t){i / 5}, sizeof i, 1, c->file);
  size_t used = strlen(c->tensors);
  snprintf(c->tensors + used, sizeof c->tensors - used, "%s\tI64\t%s\t%ld\t%d\t%d\n", name, c->path, c->offset, 8 * count, count);
  c->offset += 8 * count;
}

/* Draft id i stands for token i + i / 5. */
static void eagle3_write(tiny_checkpoint* c) {
  tiny_checkpoint_open(c, 23);
  write_block(c, "midlayer", 2 * TINY_HIDDEN, false);
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "midlayer.hidden_norm.weight");
  write_block(c, "layers.1", TINY_HIDDEN, false);
  tiny_tensor(c, TINY_HIDDEN, NUM_FEATURES * TINY_HIDDEN, 1, 0, "fc.weight");
  tiny_tensor(c, NUM_FEATURES * TINY_HIDDEN, 0, 0.2f, 1, "input_norm.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "norm.weight");
  tiny_tensor(c, DRAFT_VOCAB, TINY_HIDDEN, 1, 0, "lm_head.weight");
  write_ids(c, "d2t", DRAFT_VOCAB, 5);
  fclose(c->file);
}

static void dflash_write(tiny_checkpoint* c) {
  tiny_checkpoint_open(c, 29);
  write_block(c, "layers.0", TINY_HIDDEN, true);
  write_block(c, "layers.1", TINY_HIDDEN, true);
  tiny_tensor(c, TINY_HIDDEN, NUM_FEATURES * TINY_HIDDEN, 1, 0, "fc.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "hidden_norm.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "norm.weight");
  fclose(c->file);
}

/* A target with its drafter, their caches, and the outputs of both. */
typedef struct bench {
  rl_model* model;
  rl_drafter* drafter;
  rl_cache *cache, *history;
  rl_output *source, *output;
} bench;

static void open_bench(bench* b, const char* drafter_config, const char* drafter_tensors) {
  const int32_t layers[NUM_FEATURES] = {0, 1};
  int64_t info[6], of_model[9];
  CHECK_VALUES(rl_drafter_load(drafter_config, drafter_tensors, b->model, &b->drafter) == RL_OK, "%s", last_error());
  CHECK(rl_drafter_info(b->drafter, info) == RL_OK && info[0] > 0 && info[2] == TINY_HIDDEN && info[3] > 0);
  CHECK(rl_model_info(b->model, of_model) == RL_OK && info[5] == of_model[7]);
  bool has_layers = info[4] == RL_CAPTURE_LAYERS;
  CHECK(info[1] == (has_layers ? NUM_FEATURES : 1) * TINY_HIDDEN);
  CHECK(rl_model_capture(b->model, (int32_t)info[4], has_layers ? layers : NULL, has_layers ? NUM_FEATURES : 0) == RL_OK);
  CHECK(rl_cache_new(b->model, &b->cache) == RL_OK && rl_drafter_cache_new(b->drafter, &b->history) == RL_OK);
  CHECK(rl_output_new(&b->source) == RL_OK && rl_output_new(&b->output) == RL_OK);
  CHECK(rl_cache_resize(b->cache, 4, 32) == RL_OK && rl_cache_resize(b->history, 4, 32) == RL_OK);
  CHECK(rl_forward(b->model, b->cache, b->source, tokens, NUM_TOKENS, &(rl_row){0, 0, NUM_TOKENS, 1, 0}, 1) == RL_OK);
}

static void close_bench(bench* b) {
  CHECK(rl_output_free(b->source) == RL_OK && rl_output_free(b->output) == RL_OK && rl_cache_free(b->history) == RL_OK);
  CHECK(rl_cache_free(b->cache) == RL_OK && rl_drafter_free(b->drafter) == RL_OK);
}

static float distance(const float* a, const float* b, int count) {
  float worst = 0;
  for (int i = 0; i < count; i++) worst = isinf(a[i]) && a[i] == b[i] ? worst : fmaxf(worst, fabsf(a[i] - b[i]));
  return worst;
}

/* One row whose features are the target's rows from `first`. */
static int32_t draft(bench* b, const int32_t* ids, rl_draft_row row, rl_output* source, int first, float* logits) {
  int32_t rows[32];
  for (int i = 0; i < row.num_features; i++) rows[i] = first + i;
  int32_t status = rl_draft(b->drafter, b->history, b->output, ids, row.count, &row, 1, source, rows, row.num_features);
  if (status == RL_OK && row.outputs > 0) status = rl_output_read(b->output, logits, (int64_t)row.outputs * TINY_VOCAB);
  CHECK_VALUES(status == RL_OK, "%s", last_error());
  return status;
}

/* mtp and eagle3: history entries one after another. */
static void test_history(bench* b) {
  float whole[TINY_VOCAB], own[TINY_VOCAB], part[2 * TINY_VOCAB], features[NUM_TOKENS * TINY_HIDDEN];
  draft(b, tokens + 1, (rl_draft_row){0, 0, NUM_TOKENS, 1, NUM_TOKENS}, b->source, 0, whole);
  CHECK(rl_output_read_features(b->output, features, NUM_TOKENS * TINY_HIDDEN) == RL_OK && isfinite(features[0]));
  CHECK(rl_output_read_features(b->output, features, NUM_TOKENS * TINY_HIDDEN - 1) == RL_ERR_ARGUMENT);
  /* its own features go on, read from and written to the same output */
  draft(b, (const int32_t[]){7}, (rl_draft_row){0, NUM_TOKENS, 1, 1, 1}, b->output, NUM_TOKENS - 1, own);
  CHECK(distance(own, whole, TINY_VOCAB) > 1e-3f);
  /* what drafting appended is forgotten by a smaller offset */
  draft(b, (const int32_t[]){8}, (rl_draft_row){0, NUM_TOKENS, 1, 1, 1}, b->output, 0, part);
  draft(b, tokens + NUM_TOKENS, (rl_draft_row){0, NUM_TOKENS - 1, 1, 1, 1}, b->source, NUM_TOKENS - 1, part);
  CHECK(distance(part, whole, TINY_VOCAB) < 1e-4f);

  /* in parts, in a moved slot, beside another row */
  draft(b, tokens + 1, (rl_draft_row){3, 0, 6, 0, 6}, b->source, 0, NULL);
  CHECK(rl_output_read(b->output, part, 2 * TINY_VOCAB) == RL_ERR_ARGUMENT); /* a call without outputs leaves nothing but the history */
  CHECK(rl_output_read_features(b->output, features, NUM_TOKENS * TINY_HIDDEN) == RL_ERR_ARGUMENT);
  draft(b, tokens + 7, (rl_draft_row){3, 6, NUM_TOKENS - 7, 0, NUM_TOKENS - 7}, b->source, 6, NULL);
  CHECK(rl_cache_move(b->history, 3, 1, NUM_TOKENS - 1) == RL_OK && rl_cache_clear(b->history, 3) == RL_OK);
  const int32_t ids[] = {tokens[NUM_TOKENS], 4, 5}, rows[] = {NUM_TOKENS - 1, 3, 4};
  const rl_draft_row ragged[] = {{1, NUM_TOKENS - 1, 1, 1, 1}, {2, 0, 2, 1, 2}};
  CHECK(rl_draft(b->drafter, b->history, b->output, ids, 3, ragged, 2, b->source, rows, 3) == RL_OK);
  CHECK(rl_output_read(b->output, part, 2 * TINY_VOCAB) == RL_OK && distance(part, whole, TINY_VOCAB) < 1e-4f);
  draft(b, ids + 1, (rl_draft_row){0, 0, 2, 1, 2}, b->source, 3, own);
  CHECK(distance(part + TINY_VOCAB, own, TINY_VOCAB) < 1e-4f);
}

static void test_draft_vocabulary(bench* b) {
  float logits[TINY_VOCAB];
  draft(b, tokens + 1, (rl_draft_row){0, 0, 4, 1, 4}, b->source, 0, logits);
  for (int id = 0, i = 0; id < TINY_VOCAB; id++) {
    bool is_drafted = i < DRAFT_VOCAB && id == i + i / 5;
    i += is_drafted;
    CHECK_VALUES(is_drafted ? isfinite(logits[id]) : logits[id] == -INFINITY, "token %d: %g", id, logits[id]);
  }
}

/* dflash: committed features join the history, blocks leave nothing. */
static void test_block(bench* b, bool is_sliding) {
  enum { COUNT = 4, DRAFTS = COUNT - 1 };
  float whole[DRAFTS * TINY_VOCAB], part[2 * DRAFTS * TINY_VOCAB];
  const int32_t block[] = {tokens[NUM_TOKENS], 36, 36, 36};
  draft(b, block, (rl_draft_row){0, 0, COUNT, DRAFTS, NUM_TOKENS}, b->source, 0, whole);
  CHECK(distance(whole, whole + TINY_VOCAB, TINY_VOCAB) > 1e-3f); /* the masks differ by their positions */
  draft(b, (const int32_t[]){block[0], 36, 36, 35}, (rl_draft_row){0, NUM_TOKENS, COUNT, DRAFTS, 0}, b->source, 0, part);
  CHECK(distance(part, whole, TINY_VOCAB) > 1e-3f); /* the first draft sees the last mask */
  draft(b, block, (rl_draft_row){0, NUM_TOKENS, COUNT, DRAFTS, 0}, b->source, 0, part);
  CHECK(distance(part, whole, DRAFTS * TINY_VOCAB) < 1e-4f);
  draft(b, block, (rl_draft_row){1, 0, COUNT, DRAFTS, 5}, b->source, 0, part);
  CHECK(distance(part, whole, DRAFTS * TINY_VOCAB) > 1e-3f);
  /* the rest of the context, beside a shorter block of another row */
  int32_t ids[COUNT + 2] = {block[0], block[1], block[2], block[3], 9, 36}, rows[NUM_TOKENS - 5 + 3];
  for (int i = 0; i < NUM_TOKENS - 5; i++) rows[i] = 5 + i;
  for (int i = 0; i < 3; i++) rows[NUM_TOKENS - 5 + i] = i;
  const rl_draft_row ragged[] = {{1, 5, COUNT, DRAFTS, NUM_TOKENS - 5}, {3, 0, 2, 1, 3}};
  CHECK(rl_draft(b->drafter, b->history, b->output, ids, COUNT + 2, ragged, 2, b->source, rows, NUM_TOKENS - 5 + 3) == RL_OK);
  CHECK(rl_output_read(b->output, part, (DRAFTS + 1) * TINY_VOCAB) == RL_OK && distance(part, whole, DRAFTS * TINY_VOCAB) < 1e-4f);
  float alone[TINY_VOCAB];
  draft(b, ids + COUNT, (rl_draft_row){2, 0, 2, 1, 3}, b->source, 0, alone);
  CHECK(distance(part + DRAFTS * TINY_VOCAB, alone, TINY_VOCAB) < 1e-4f);
  if (!is_sliding) return;
  /* a window of 6 sees 5 committed tokens: with other features before them the drafts are the same */
  int32_t changed[NUM_TOKENS];
  for (int i = 0; i < NUM_TOKENS; i++) changed[i] = i < NUM_TOKENS - 5 ? 3 : i;
  const rl_draft_row row = {2, 0, COUNT, DRAFTS, NUM_TOKENS};
  CHECK(rl_draft(b->drafter, b->history, b->output, block, COUNT, &row, 1, b->source, changed, NUM_TOKENS) == RL_OK);
  CHECK(rl_output_read(b->output, part, DRAFTS * TINY_VOCAB) == RL_OK && distance(part, whole, DRAFTS * TINY_VOCAB) < 1e-4f);
  changed[NUM_TOKENS - 5] = 3;
  CHECK(rl_draft(b->drafter, b->history, b->output, block, COUNT, &row, 1, b->source, changed, NUM_TOKENS) == RL_OK);
  CHECK(rl_output_read(b->output, part, DRAFTS * TINY_VOCAB) == RL_OK && distance(part, whole, TINY_VOCAB) > 1e-3f);
  CHECK(distance(part + 2 * TINY_VOCAB, whole + 2 * TINY_VOCAB, TINY_VOCAB) > 1e-3f); /* the last draft's window does not slide within the block */
}

static int32_t draft_status(bench* b, const int32_t* ids, int num_ids, rl_draft_row row, rl_output* source, const int32_t* rows, int num_rows) {
  return rl_draft(b->drafter, b->history, b->output, ids, num_ids, &row, 1, source, rows, num_rows);
}

static void test_bad_drafts(bench* b, bool has_block) {
  const int32_t rows[] = {0, 1}, behind[] = {NUM_TOKENS}, negative[] = {-1}, bad[] = {TINY_VOCAB};
  const rl_draft_row good = {0, 0, 1, 0, 1};
  rl_output* empty = NULL;
  CHECK(rl_output_new(&empty) == RL_OK);
  CHECK(rl_draft(NULL, b->history, b->output, tokens, 1, &good, 1, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_draft(b->drafter, b->cache, b->output, tokens, 1, &good, 1, b->source, rows, 1) == RL_ERR_ARGUMENT); /* the model's cache */
  CHECK(rl_draft(b->drafter, b->history, b->output, tokens, 1, &good, 1, NULL, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 0, good, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 2, good, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 1, good, b->source, rows, 2) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, bad, 1, good, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 1, good, b->source, behind, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "0 … 19") != NULL);
  CHECK(draft_status(b, tokens, 1, good, b->source, negative, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 1, good, empty, rows, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "rl_model_capture") != NULL);
  CHECK(draft_status(b, tokens, 1, (rl_draft_row){4, 0, 1, 0, 1}, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 1, (rl_draft_row){0, 32, 1, 0, 1}, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK(draft_status(b, tokens, 1, (rl_draft_row){0, 0, 1, 2, 1}, b->source, rows, 1) == RL_ERR_ARGUMENT);
  CHECK((draft_status(b, tokens, 1, (rl_draft_row){0, 0, 1, 0, 0}, b->source, rows, 0) == RL_OK) == has_block);
  CHECK(draft_status(b, tokens, 1, (rl_draft_row){0, 31, 1, 0, 1}, b->source, rows, 1) == (has_block ? RL_ERR_ARGUMENT : RL_OK));
  /* features of a forward that captured something else */
  CHECK(rl_model_capture(b->model, has_block ? RL_CAPTURE_FINAL : RL_CAPTURE_LAYERS, has_block ? NULL : rows, has_block ? 0 : 1) == RL_OK);
  CHECK(rl_forward(b->model, b->cache, empty, tokens, 1, &(rl_row){1, 0, 1, 0, 0}, 1) == RL_OK);
  if (has_block) CHECK(draft_status(b, tokens, 1, good, empty, rows, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "24 wide") != NULL);
  CHECK(rl_output_free(empty) == RL_OK);
}

static void test_capture(rl_model* m) {
  const int32_t layers[] = {1, 0}, behind[] = {2};
  rl_cache* c = NULL;
  rl_output* o = NULL;
  float first[4 * TINY_HIDDEN], both[4 * 2 * TINY_HIDDEN];
  CHECK(rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK && rl_cache_resize(c, 1, 16) == RL_OK);
  CHECK(rl_model_capture(NULL, 0, NULL, 0) == RL_ERR_ARGUMENT && rl_model_capture(m, 3, NULL, 0) == RL_ERR_ARGUMENT);
  CHECK(rl_model_capture(m, RL_CAPTURE_LAYERS, NULL, 1) == RL_ERR_ARGUMENT && rl_model_capture(m, RL_CAPTURE_LAYERS, layers, 0) == RL_ERR_ARGUMENT);
  CHECK(rl_model_capture(m, RL_CAPTURE_LAYERS, behind, 1) == RL_ERR_ARGUMENT && strstr(last_error(), "0 … 1") != NULL);
  CHECK(rl_model_capture(m, RL_CAPTURE_FINAL, layers, 1) == RL_ERR_ARGUMENT);
  CHECK(rl_model_capture(m, RL_CAPTURE_LAYERS, layers + 1, 1) == RL_OK);
  CHECK(rl_forward(m, c, o, tokens, 4, &(rl_row){0, 0, 4, 0, 0}, 1) == RL_OK && rl_output_read_features(o, first, 4 * TINY_HIDDEN) == RL_OK);
  CHECK(rl_model_capture(m, RL_CAPTURE_LAYERS, layers, 2) == RL_OK);
  CHECK(rl_forward(m, c, o, tokens, 4, &(rl_row){0, 0, 4, 1, 0}, 1) == RL_OK && rl_output_read_features(o, both, 8 * TINY_HIDDEN) == RL_OK);
  for (int i = 0; i < 4; i++) CHECK(distance(first + i * TINY_HIDDEN, both + (2 * i + 1) * TINY_HIDDEN, TINY_HIDDEN) < 1e-6f);
  CHECK(rl_output_read_features(o, NULL, 100) == RL_ERR_ARGUMENT);
  CHECK(rl_model_capture(m, RL_CAPTURE_NONE, NULL, 0) == RL_OK);
  CHECK(rl_forward(m, c, o, tokens, 4, &(rl_row){0, 0, 4, 0, 0}, 1) == RL_OK && rl_output_read_features(o, both, 8 * TINY_HIDDEN) == RL_ERR_ARGUMENT);
  CHECK(rl_output_free(o) == RL_OK && rl_cache_free(c) == RL_OK);
}

static void refuse(rl_model* m, const char* config, const char* tensors, const char* reason) {
  rl_drafter* d = NULL;
  CHECK_VALUES(rl_drafter_load(config, tensors, m, &d) == RL_ERR_MODEL && strstr(last_error(), reason) != NULL, "%s: %s", reason, last_error());
  CHECK(d == NULL);
}

static void test_bad_loads(rl_model* m, const tiny_checkpoint* eagle3) {
  char config[sizeof eagle3_config + 32], tensors[sizeof eagle3->tensors];
  rl_drafter* d = NULL;
  CHECK(rl_drafter_load(NULL, eagle3->tensors, m, &d) == RL_ERR_ARGUMENT && rl_drafter_load(eagle3_config, eagle3->tensors, NULL, &d) == RL_ERR_ARGUMENT);
  CHECK(rl_drafter_info(NULL, NULL) == RL_ERR_ARGUMENT && rl_drafter_cache_new(NULL, NULL) == RL_ERR_ARGUMENT && rl_drafter_free(NULL) == RL_OK);
  refuse(m, "drafter_kind=medusa\n", "", "medusa");
  refuse(m, dflash_config, eagle3->tensors, "hidden_norm");
  refuse(m, hybrid_mtp_config, eagle3->tensors, "pre_fc_norm_embedding");
  snprintf(config, sizeof config, "%s", hybrid_mtp_config);
  memcpy(strstr(config, "hidden_size=24"), "hidden_size=32", 14);
  refuse(m, config, eagle3->tensors, "hidden_size is 32, that of the model 24");
  snprintf(config, sizeof config, "%s", eagle3_config);
  memcpy(strstr(config, "draft_vocab_size=30"), "draft_vocab_size=29", 19);
  refuse(m, config, eagle3->tensors, "lm_head");
  memcpy(strstr(config, "draft_vocab_size=29"), "draft_vocab_size=30", 19);
  strcat(config, "dense_bits=6\n");
  refuse(m, config, eagle3->tensors, "dense_bits is 6, expected 4 or 8");
  /* a map that points behind the vocabulary, and one of another type */
  tiny_checkpoint ids;
  tiny_checkpoint_open(&ids, 1);
  write_ids(&ids, "d2t", DRAFT_VOCAB, TINY_VOCAB - DRAFT_VOCAB + 1);
  fclose(ids.file);
  snprintf(tensors, sizeof tensors, "%.*s%s", (int)(strstr(eagle3->tensors, "d2t") - eagle3->tensors), eagle3->tensors, ids.tensors);
  refuse(m, eagle3_config, tensors, "maps draft id 29 to 37");
  *strstr(strstr(tensors, "d2t"), "I64") = 'F';
  CHECK(rl_drafter_load(eagle3_config, tensors, m, &d) == RL_ERR_MODEL);
  tiny_checkpoint_remove(&ids);
}

int main(void) {
  tiny_checkpoint llama, hybrid, eagle3, dflash;
  bench b = {0};
  tiny_checkpoint_write(&llama), hybrid_checkpoint_write(&hybrid);
  eagle3_write(&eagle3), dflash_write(&dflash);
  CHECK_VALUES(rl_model_load(tiny_config, llama.tensors, &b.model) == RL_OK, "%s", last_error());
  test_capture(b.model);
  test_bad_loads(b.model, &eagle3);
  open_bench(&b, eagle3_config, eagle3.tensors);
  test_history(&b);
  test_draft_vocabulary(&b);
  test_bad_drafts(&b, false);
  close_bench(&b);
  for (int slides = 0; slides < 2; slides++) {
    open_bench(&b, slides ? dflash_sliding_config : dflash_config, dflash.tensors);
    test_block(&b, slides);
    test_bad_drafts(&b, true);
    close_bench(&b);
  }
  CHECK(rl_model_free(b.model) == RL_OK);
  CHECK_VALUES(rl_model_load(hybrid_config, hybrid.tensors, &b.model) == RL_OK, "%s", last_error());
  open_bench(&b, hybrid_mtp_config, hybrid.tensors);
  test_history(&b);
  test_bad_drafts(&b, false);
  close_bench(&b);
  CHECK(rl_model_free(b.model) == RL_OK);
  tiny_checkpoint* all[] = {&llama, &hybrid, &eagle3, &dflash};
  for (int i = 0; i < 4; i++) tiny_checkpoint_remove(all[i]);
  return finish();
}
