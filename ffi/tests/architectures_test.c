/* Every architecture on a tiny random checkpoint: a batch gives what each row gives alone, chunks give what the whole prompt gives, damaged
 * checkpoints are refused. */
#include <math.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_decoders.h"

enum { NUM_TOKENS = 13 };
static const int32_t prompt[NUM_TOKENS] = {1, 5, 9, 30, 2, 2, 17, 36, 0, 11, 23, 8, 8};

static char error_text[1024];
static const char* last_error(void) { return rl_last_error(error_text, sizeof error_text), error_text; }

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
  float off = distance(part, whole, TINY_VOCAB);
  CHECK_VALUES(off <= tolerance, "%s %s: chunks are off by %g", name, dtype, off);
  for (int i = 0; i < NUM_TOKENS; i++) run_row(m, c, o, prompt + i, 1, 2, i, part);
  off = distance(part, whole, TINY_VOCAB);
  CHECK_VALUES(off <= tolerance, "%s %s: steps are off by %g", name, dtype, off);
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

static void test_dtype(const kind* k, const tiny_checkpoint* checkpoint, const char* dtype, float chunk_tolerance, float batch_tolerance,
                       int compute_type) {
  rl_model* m = NULL;
  rl_cache* c = NULL;
  rl_output* o = NULL;
  int64_t info[9];
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
    int before = (int)(line - checkpoint->tensors);
    snprintf(tensors, sizeof tensors, "%.*s%s\tF32\t%s\t0\t28\t7,1\n%s", before, checkpoint->tensors, name, path, rest);
    CHECK_VALUES(load(k, "float32", tensors, &m) == RL_ERR_MODEL && strstr(last_error(), name) != NULL, "%s with another %s: %s",
                 k->model_type, name, last_error());
  }
}

/* The prompt's last logits. */
static void logits_of(const kind* k, float* logits) {
  tiny_checkpoint checkpoint;
  rl_model* m = NULL;
  rl_cache* c = NULL;
  rl_output* o = NULL;
  write_checkpoint(&checkpoint, k);
  CHECK_VALUES(load(k, "float32", checkpoint.tensors, &m) == RL_OK, "%s: %s", k->model_type, last_error());
  if (m == NULL) return;
  CHECK(rl_cache_new(m, &c) == RL_OK && rl_output_new(&o) == RL_OK && rl_cache_resize(c, 1, 16) == RL_OK);
  run_row(m, c, o, prompt, NUM_TOKENS, 0, 0, logits);
  CHECK(rl_output_free(o) == RL_OK && rl_cache_free(c) == RL_OK && rl_model_free(m) == RL_OK);
  tiny_checkpoint_remove(&checkpoint);
}

/* Relatives of Llama on the same numbers: the same logits where what sets them apart is off, others where it is on. */
static void test_relatives(void) {
  float llama[TINY_VOCAB], other[TINY_VOCAB];
  logits_of(&(kind){.model_type = "llama", .config = "tie_word_embeddings=false\n"}, llama);
  logits_of(&(kind){.model_type = "phi3", .config = "tie_word_embeddings=false\n", .is_fused = true}, other);
  CHECK(distance(llama, other, TINY_VOCAB) == 0);
  logits_of(&(kind){.model_type = "smollm3", .config = "tie_word_embeddings=false\nno_rope_layers=1,1\n"}, other);
  CHECK(distance(llama, other, TINY_VOCAB) == 0);
  logits_of(&(kind){.model_type = "smollm3", .config = "tie_word_embeddings=false\nno_rope_layers=1,0\n"}, other);
  CHECK(distance(llama, other, TINY_VOCAB) > 0.1f);
  kind mixture = kinds[6];
  logits_of(&mixture, llama);
  mixture.has_stacked_experts = true;
  logits_of(&mixture, other);
  CHECK(distance(llama, other, TINY_VOCAB) == 0); /* one tensor for all experts holds the same numbers as one of each */
}

/* A stack of another number of experts than the config's. */
static void test_wrong_stack(void) {
  static char config[1024];
  tiny_checkpoint checkpoint;
  rl_model* m = NULL;
  kind mixture = kinds[7];
  write_checkpoint(&checkpoint, &mixture);
  snprintf(config, sizeof config, "%s", mixture.config);
  strstr(config, "num_experts=4")[strlen("num_experts=")] = '3';
  mixture.config = config;
  char* gate = strstr(checkpoint.tensors, "mlp.gate.weight");
  memcpy(strstr(gate, "\t4,24"), "\t3,24", 5); /* the router fits */
  memcpy(strstr(gate, "\t384\t"), "\t288\t", 5);
  CHECK(load(&mixture, "float32", checkpoint.tensors, &m) == RL_ERR_MODEL);
  CHECK_VALUES(strstr(last_error(), "[4, 10, 24], expected [3, 10, 24]") != NULL, "%s", last_error());
  tiny_checkpoint_remove(&checkpoint);
}

/* ---- stored formats ---- */

/* Random ggml blocks of 32 values with small scales. */
static void write_blocks(tiny_checkpoint* c, int rows, int columns, const char* type, int block_bytes, int num_halves, const char* name) {
  char shape[32];
  int num_blocks = rows * columns / 32;
  for (int i = 0; i < num_blocks * block_bytes; i++) {
    int place = i % block_bytes;
    uint8_t byte = (uint8_t)(tiny_random(c) * 255 + 127.5f);
    if (place < 2 * num_halves) byte = place % 2 == 0 ? byte : place < 2 ? 0x20 : 0xA4;
    fwrite(&byte, 1, 1, c->file);
  }
  snprintf(shape, sizeof shape, "%d,%d", rows, columns);
  tiny_line(c, name, type, shape, num_blocks * block_bytes);
}

/* Parts of one fused projection in different formats: kept as stored they are several products, with the result of one dense product. */
static void test_mixed_formats(void) {
  static const char config[] =
      "model_type=llama\nvocab_size=37\nhidden_size=32\nintermediate_size=64\nnum_hidden_layers=1\nnum_attention_heads=4\n"
      "num_key_value_heads=2\nhead_dim=8\nrms_norm_eps=1e-5\nrope_theta=10000\nrope_type=default\nquant_bits=0\nquant_group_size=0\n"
      "tie_word_embeddings=true\n"
      "qk_interleaved=true\n";
  tiny_checkpoint c;
  float logits[2][TINY_VOCAB];
  int64_t info[2][9];
  tiny_checkpoint_open(&c, 3);
  write_blocks(&c, TINY_VOCAB, 32, "Q8_0", 34, 1, "model.embed_tokens.weight");
  tiny_tensor(&c, 32, 0, 0.2f, 1, "model.norm.weight");
  tiny_tensor(&c, 32, 0, 0.2f, 1, "model.layers.0.input_layernorm.weight");
  tiny_tensor(&c, 32, 0, 0.2f, 1, "model.layers.0.post_attention_layernorm.weight");
  write_blocks(&c, 32, 32, "Q8_0", 34, 1, "model.layers.0.self_attn.q_proj.weight");
  tiny_tensor(&c, 16, 32, 1, 0, "model.layers.0.self_attn.k_proj.weight");
  write_blocks(&c, 16, 32, "Q4_1", 20, 2, "model.layers.0.self_attn.v_proj.weight");
  write_blocks(&c, 32, 32, "IQ4_NL", 18, 1, "model.layers.0.self_attn.o_proj.weight");
  write_blocks(&c, 64, 32, "Q5_1", 24, 2, "model.layers.0.mlp.gate_proj.weight");
  write_blocks(&c, 64, 32, "Q5_1", 24, 2, "model.layers.0.mlp.up_proj.weight");
  write_blocks(&c, 32, 64, "Q4_0", 18, 1, "model.layers.0.mlp.down_proj.weight");
  fclose(c.file);
  for (int i = 0; i < 2; i++) {
    char full[1024];
    rl_model* m = NULL;
    rl_cache* cache = NULL;
    rl_output* o = NULL;
    snprintf(full, sizeof full, "%sdtype=%s\n", config, i == 0 ? "float32" : "stored");
    CHECK_VALUES(rl_model_load(full, c.tensors, &m) == RL_OK, "%s", last_error());
    if (m == NULL) return;
    CHECK(rl_cache_new(m, &cache) == RL_OK && rl_output_new(&o) == RL_OK && rl_cache_resize(cache, 1, 16) == RL_OK);
    run_row(m, cache, o, prompt, NUM_TOKENS, 0, 0, logits[i]);
    CHECK(rl_model_info(m, info[i]) == RL_OK);
    CHECK(rl_output_free(o) == RL_OK && rl_cache_free(cache) == RL_OK && rl_model_free(m) == RL_OK);
  }
  float scale = distance(logits[0], (float[TINY_VOCAB]){0}, TINY_VOCAB), off = distance(logits[0], logits[1], TINY_VOCAB);
  CHECK_VALUES(scale > 0.1f && off < 2e-3f * scale, "logits up to %g are off by %g", scale, off); /* IQ4_NL becomes float16 */
  CHECK_VALUES(2 * info[1][0] < info[0][0], "%lld bytes as stored, %lld dense", (long long)info[1][0], (long long)info[0][0]);
  tiny_checkpoint_remove(&c);
}

int main(void) {
  test_mixed_formats();
  test_relatives();
  test_wrong_stack();
  CHECK(rl_batch_invariant(1) == RL_OK);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    tiny_checkpoint checkpoint;
    write_checkpoint(&checkpoint, &kinds[i]);
    test_dtype(&kinds[i], &checkpoint, "auto", 2e-4f, 0, 0);
    test_dtype(&kinds[i], &checkpoint, "stored", 2e-4f, 0, 0);
    test_dtype(&kinds[i], &checkpoint, "float16", 0.02f, 0.02f, 1);
    test_dtype(&kinds[i], &checkpoint, "bfloat16", 0.15f, 0.15f, 2);
    rl_model* m = NULL;
    CHECK(load(&kinds[i], "float8", checkpoint.tensors, &m) == RL_ERR_MODEL && strstr(last_error(), "float8") != NULL);
    test_damaged(&kinds[i], &checkpoint);
    tiny_checkpoint_remove(&checkpoint);
  }
  return finish();
}
