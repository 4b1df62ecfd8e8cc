/* Every architecture on a tiny random checkpoint: a batch gives what each row gives alone, chunks give what the whole prompt gives, damaged
 * checkpoints are refused. To add one: a line in `kinds`, and its tensors in write_block where they differ from Llama's. */
#include <math.h>
#include <stdbool.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_checkpoint.h"

enum { HIDDEN = 24, INTERMEDIATE = 40, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 6, LAYERS = 2, EXPERTS = 4, EXPERT_SIZE = 10, NUM_TOKENS = 13 };

static const int32_t prompt[NUM_TOKENS] = {1, 5, 9, 30, 2, 2, 17, 36, 0, 11, 23, 8, 8};
static const char common_config[] =
    "vocab_size=37\nhidden_size=24\nintermediate_size=40\nnum_hidden_layers=2\nnum_attention_heads=4\nnum_key_value_heads=2\nhead_dim=6\n"
    "rms_norm_eps=1e-5\nrope_theta=10000\nrope_type=default\nquant_bits=0\nquant_group_size=0\n";

typedef struct kind {
  const char *model_type, *config;
  bool has_qkv_bias, has_qk_norm, is_fused, has_experts, has_stacked_experts, has_outer_norms;
} kind;

static const kind kinds[] = {
    {.model_type = "llama", .config = "tie_word_embeddings=true\n"},
    {.model_type = "llama", .config = "tie_word_embeddings=false\nsliding_window=5\nlayer_types=full_attention,sliding_attention\n"},
    {.model_type = "qwen2", .config = "tie_word_embeddings=true\n", .has_qkv_bias = true},
    {.model_type = "qwen3", .config = "tie_word_embeddings=false\n", .has_qk_norm = true},
    {.model_type = "smollm3", .config = "tie_word_embeddings=true\nno_rope_layers=1,0\n"},
    {.model_type = "phi3", .config = "tie_word_embeddings=false\n", .is_fused = true},
    {.model_type = "qwen3_moe",
     .config = "tie_word_embeddings=true\nnum_experts=4\nnum_experts_per_tok=2\nmoe_intermediate_size=10\nnorm_topk_prob=true\nsparse_layers=1,0\n",
     .has_qk_norm = true,
     .has_experts = true},
    {.model_type = "qwen3_moe",
     .config = "tie_word_embeddings=true\nnum_experts=4\nnum_experts_per_tok=3\nmoe_intermediate_size=10\nsparse_layers=1,0\n",
     .has_qk_norm = true,
     .has_experts = true,
     .has_stacked_experts = true},
    {.model_type = "gemma3_text",
     .config = "tie_word_embeddings=true\nnorm_offset=1\nquery_pre_attn_scalar=6\nrope_local_base_freq=100\nsliding_window=5\n"
               "layer_types=sliding_attention,full_attention\n",
     .has_qk_norm = true,
     .has_outer_norms = true},
};

static char error_text[1024];
static const char* last_error(void) { return rl_last_error(error_text, sizeof error_text), error_text; }

static void write_norm(tiny_checkpoint* c, int layer, const char* name, int size, float center) {
  tiny_tensor(c, size, 0, 0.2f, center, "model.layers.%d.%s.weight", layer, name);
}

static void write_linear(tiny_checkpoint* c, int layer, const char* name, int rows, int columns, bool has_bias) {
  tiny_tensor(c, rows, columns, 1, 0, "model.layers.%d.%s.weight", layer, name);
  if (has_bias) tiny_tensor(c, rows, 0, 1, 0, "model.layers.%d.%s.bias", layer, name);
}

/* All experts of one projection: one tensor, or one of each. */
static void write_experts(tiny_checkpoint* c, const kind* k, const char* name, int rows, int columns) {
  for (int i = 0; i < EXPERTS && !k->has_stacked_experts; i++)
    tiny_tensor(c, rows, columns, 1, 0, "model.layers.0.mlp.experts.%d.%s.weight", i, name);
  if (!k->has_stacked_experts) return;
  char full[128], shape[48];
  for (int i = 0; i < EXPERTS * rows * columns; i++) fwrite(&(float){tiny_random(c)}, sizeof(float), 1, c->file);
  snprintf(full, sizeof full, "model.layers.0.mlp.switch_mlp.%s.weight", name);
  snprintf(shape, sizeof shape, "%d,%d,%d", EXPERTS, rows, columns);
  tiny_line(c, full, "F32", shape, EXPERTS * rows * columns * 4);
}

static void write_attention(tiny_checkpoint* c, const kind* k, int i) {
  int q = HEADS * HEAD_DIM, kv = KV_HEADS * HEAD_DIM;
  float center = k->has_outer_norms ? 0 : 1;
  if (k->is_fused) {
    write_linear(c, i, "self_attn.qkv_proj", q + 2 * kv, HIDDEN, false);
  } else {
    write_linear(c, i, "self_attn.q_proj", q, HIDDEN, k->has_qkv_bias);
    write_linear(c, i, "self_attn.k_proj", kv, HIDDEN, k->has_qkv_bias);
    write_linear(c, i, "self_attn.v_proj", kv, HIDDEN, k->has_qkv_bias);
  }
  if (k->has_qk_norm) write_norm(c, i, "self_attn.q_norm", HEAD_DIM, center), write_norm(c, i, "self_attn.k_norm", HEAD_DIM, center);
  write_linear(c, i, "self_attn.o_proj", HIDDEN, q, false);
}

static void write_mlp(tiny_checkpoint* c, const kind* k, int i) {
  if (k->has_experts && i == 0) {
    write_linear(c, i, "mlp.gate", EXPERTS, HIDDEN, false);
    write_experts(c, k, "gate_proj", EXPERT_SIZE, HIDDEN);
    write_experts(c, k, "up_proj", EXPERT_SIZE, HIDDEN);
    write_experts(c, k, "down_proj", HIDDEN, EXPERT_SIZE);
    return;
  }
  if (k->is_fused) write_linear(c, i, "mlp.gate_up_proj", 2 * INTERMEDIATE, HIDDEN, false);
  else write_linear(c, i, "mlp.gate_proj", INTERMEDIATE, HIDDEN, false), write_linear(c, i, "mlp.up_proj", INTERMEDIATE, HIDDEN, false);
  write_linear(c, i, "mlp.down_proj", HIDDEN, INTERMEDIATE, false);
}

static void write_checkpoint(tiny_checkpoint* c, const kind* k) {
  float center = k->has_outer_norms ? 0 : 1;
  tiny_checkpoint_open(c, 7);
  tiny_tensor(c, TINY_VOCAB, HIDDEN, 4, 0, "model.embed_tokens.weight");
  tiny_tensor(c, HIDDEN, 0, 0.2f, center, "model.norm.weight");
  if (strstr(k->config, "tie_word_embeddings=false") != NULL) tiny_tensor(c, TINY_VOCAB, HIDDEN, 4, 0, "lm_head.weight");
  for (int i = 0; i < LAYERS; i++) {
    write_norm(c, i, "input_layernorm", HIDDEN, center);
    write_norm(c, i, "post_attention_layernorm", HIDDEN, center);
    if (k->has_outer_norms) write_norm(c, i, "pre_feedforward_layernorm", HIDDEN, center), write_norm(c, i, "post_feedforward_layernorm", HIDDEN, center);
    write_attention(c, k, i);
    write_mlp(c, k, i);
  }
  fclose(c->file);
}

static int32_t load(const kind* k, const char* dtype, const char* tensors, rl_model** model) {
  char config[1024];
  snprintf(config, sizeof config, "model_type=%s\n%s%sdtype=%s\n", k->model_type, common_config, k->config, dtype);
  return rl_model_load(config, tensors, model);
}

static float distance(const float* a, const float* b, int count) {
  float worst = 0;
  for (int i = 0; i < count; i++) worst = isfinite(a[i]) && isfinite(b[i]) ? fmaxf(worst, fabsf(a[i] - b[i])) : INFINITY;
  return worst;
}

/* One row's last logits. */
static void run_row(rl_model* m, rl_cache* c, rl_output* o, const int32_t* tokens, int count, int slot, int offset, float* logits) {
  rl_row row = {.slot = slot, .offset = offset, .count = count, .outputs = 1};
  CHECK_VALUES(rl_forward(m, c, o, tokens, count, &row, 1) == RL_OK, "%s", last_error());
  CHECK(rl_output_read(o, logits, TINY_VOCAB) == RL_OK);
}

static void test_chunks(rl_model* m, rl_cache* c, rl_output* o, const char* name, const char* dtype, float tolerance) {
  float whole[TINY_VOCAB], part[TINY_VOCAB], first[TINY_VOCAB];
  run_row(m, c, o, prompt, 1, 0, 0, first);
  run_row(m, c, o, prompt, NUM_TOKENS, 0, 0, whole);
  CHECK_VALUES(distance(first, whole, TINY_VOCAB) > 0.1f, "%s %s: the prompt makes no difference", name, dtype);
  run_row(m, c, o, prompt, 6, 1, 0, part);
  run_row(m, c, o, prompt + 6, NUM_TOKENS - 6, 1, 6, part);
  CHECK_VALUES(distance(part, whole, TINY_VOCAB) <= tolerance, "%s %s: chunks are off by %g", name, dtype, distance(part, whole, TINY_VOCAB));
  for (int i = 0; i < NUM_TOKENS; i++) run_row(m, c, o, prompt + i, 1, 2, i, part);
  CHECK_VALUES(distance(part, whole, TINY_VOCAB) <= tolerance, "%s %s: steps are off by %g", name, dtype, distance(part, whole, TINY_VOCAB));
}

/* Three rows of 4, 9 and 13 tokens: prefilled together, then one decoding step together. `tolerance` 0: the same bits. */
static void test_batch(rl_model* m, rl_cache* c, rl_output* o, const char* name, const char* dtype, float tolerance) {
  const int lengths[] = {4, 9, 13};
  float alone[3][TINY_VOCAB], step_alone[3][TINY_VOCAB], together[3 * TINY_VOCAB];
  int32_t tokens[26], next[] = {3, 14, 15};
  rl_row rows[3], steps[3];
  for (int i = 0, used = 0; i < 3; used += lengths[i++]) {
    run_row(m, c, o, prompt, lengths[i], i, 0, alone[i]);
    run_row(m, c, o, &next[i], 1, i, lengths[i], step_alone[i]);
    memcpy(tokens + used, prompt, (size_t)lengths[i] * sizeof *prompt);
    rows[i] = (rl_row){.slot = i, .offset = 0, .count = lengths[i], .outputs = 1};
    steps[i] = (rl_row){.slot = i, .offset = lengths[i], .count = 1, .outputs = 1};
  }
  CHECK(rl_forward(m, c, o, tokens, 26, rows, 3) == RL_OK && rl_output_read(o, together, 3 * TINY_VOCAB) == RL_OK);
  for (int i = 0; i < 3; i++) {
    float off = distance(together + i * TINY_VOCAB, alone[i], TINY_VOCAB);
    CHECK_VALUES(off <= tolerance, "%s %s: row %d is off by %g in a batch", name, dtype, i, off);
  }
  CHECK(rl_forward(m, c, o, next, 3, steps, 3) == RL_OK && rl_output_read(o, together, 3 * TINY_VOCAB) == RL_OK);
  for (int i = 0; i < 3; i++) {
    float off = distance(together + i * TINY_VOCAB, step_alone[i], TINY_VOCAB);
    CHECK_VALUES(off <= tolerance, "%s %s: row %d's step is off by %g in a batch", name, dtype, i, off);
  }
}

static void test_dtype(const kind* k, const tiny_checkpoint* checkpoint, const char* dtype, float chunk_tolerance, float batch_tolerance, int compute_type) {
  rl_model* m = NULL;
  rl_cache* c = NULL;
  rl_output* o = NULL;
  int64_t info[8];
  CHECK_VALUES(load(k, dtype, checkpoint->tensors, &m) == RL_OK, "%s %s: %s", k->model_type, dtype, last_error());
  if (m == NULL) return;
  CHECK(rl_model_info(m, info) == RL_OK && info[6] == compute_type);
  CHECK(info[4] == 2LL * LAYERS * KV_HEADS * HEAD_DIM * (compute_type == 0 ? 4 : 2));
  CHECK(rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK && rl_cache_resize(c, 3, 16) == RL_OK);
  test_chunks(m, c, o, k->model_type, dtype, chunk_tolerance);
  test_batch(m, c, o, k->model_type, dtype, batch_tolerance);
  CHECK(rl_output_free(o) == RL_OK && rl_cache_free(c) == RL_OK && rl_model_free(m) == RL_OK);
}

/* Leaves out each tensor in turn, then gives each another shape. */
static void test_damaged(const kind* k, const tiny_checkpoint* checkpoint) {
  static char tensors[sizeof checkpoint->tensors];
  for (const char* line = checkpoint->tensors; *line != '\0'; line = strchr(line, '\n') + 1) {
    const char* rest = strchr(line, '\n') + 1;
    rl_model* m = NULL;
    snprintf(tensors, sizeof tensors, "%.*s%s", (int)(line - checkpoint->tensors), checkpoint->tensors, rest);
    CHECK_VALUES(load(k, "float32", tensors, &m) == RL_ERR_MODEL, "%s without %.60s", k->model_type, line);
    char name[128] = "", path[80] = "";
    sscanf(line, "%127s F32 %79s", name, path);
    snprintf(tensors, sizeof tensors, "%.*s%s\tF32\t%s\t0\t28\t7,1\n%s", (int)(line - checkpoint->tensors), checkpoint->tensors, name, path, rest);
    CHECK_VALUES(load(k, "float32", tensors, &m) == RL_ERR_MODEL && strstr(last_error(), name) != NULL, "%s with another %s: %s", k->model_type, name,
                 last_error());
  }
}

int main(void) {
  CHECK(rl_batch_invariant(1) == RL_OK);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    tiny_checkpoint checkpoint;
    write_checkpoint(&checkpoint, &kinds[i]);
    test_dtype(&kinds[i], &checkpoint, "auto", 2e-4f, 0, 0);
    test_dtype(&kinds[i], &checkpoint, "stored", 2e-4f, 0, 0);
    test_dtype(&kinds[i], &checkpoint, "float16", 0.25f, 0.25f, 1);
    test_dtype(&kinds[i], &checkpoint, "bfloat16", 2, 2, 2);
    rl_model* m = NULL;
    CHECK(load(&kinds[i], "float8", checkpoint.tensors, &m) == RL_ERR_MODEL && strstr(last_error(), "float8") != NULL);
    test_damaged(&kinds[i], &checkpoint);
    tiny_checkpoint_remove(&checkpoint);
  }
  return finish();
}
