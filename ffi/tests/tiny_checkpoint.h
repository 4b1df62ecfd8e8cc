/* A tiny llama checkpoint with random weights, written to a file of its own. */
#ifndef ROWLOCK_TINY_CHECKPOINT_H
#define ROWLOCK_TINY_CHECKPOINT_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TINY_VOCAB = 37, TINY_HIDDEN = 24, TINY_INTERMEDIATE = 40, TINY_LAYERS = 2, TINY_HEADS = 4, TINY_KV_HEADS = 2, TINY_HEAD_DIM = 6 };

static const char tiny_config[] =
    "model_type=llama\nvocab_size=37\nhidden_size=24\nintermediate_size=40\nnum_hidden_layers=2\nnum_attention_heads=4\n"
    "num_key_value_heads=2\nhead_dim=6\nrms_norm_eps=1e-5\nrope_theta=10000\ntie_word_embeddings=true\nrope_type=default\ndtype=float32\n"
    "quant_bits=0\nquant_group_size=0\n";

typedef struct tiny_checkpoint {
  char path[64];
  char tensors[1 << 14];
  long offset;
  FILE* file;
  uint32_t random;
} tiny_checkpoint;

static float tiny_random(tiny_checkpoint* c) {
  c->random = c->random * 1664525u + 1013904223u;
  return (float)(c->random >> 8) / (float)(1 << 24) - 0.5f;
}

/* The line in the table of a tensor whose `bytes` bytes were just written. */
static void tiny_line(tiny_checkpoint* c, const char* name, const char* type, const char* shape, int bytes) {
  size_t used = strlen(c->tensors);
  snprintf(c->tensors + used, sizeof c->tensors - used, "%s\t%s\t%s\t%ld\t%d\t%s\n", name, type, c->path, c->offset, bytes, shape);
  c->offset += bytes;
}

/* Appends a tensor of random float32 values and its line in the table; columns 0 makes a vector. */
static void tiny_tensor(tiny_checkpoint* c, int rows, int columns, float scale, float bias, const char* format, ...) {
  char name[128], shape[32];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  int count = rows * (columns > 0 ? columns : 1);
  for (int i = 0; i < count; i++) {
    float value = tiny_random(c) * scale + bias;
    fwrite(&value, sizeof value, 1, c->file);
  }
  if (columns > 0) snprintf(shape, sizeof shape, "%d,%d", rows, columns);
  else snprintf(shape, sizeof shape, "%d", rows);
  tiny_line(c, name, "F32", shape, 4 * count);
}

/* A file to append tensors to; fclose(c->file) ends it. */
static void tiny_checkpoint_open(tiny_checkpoint* c, uint32_t random) {
  memset(c, 0, sizeof *c);
  snprintf(c->path, sizeof c->path, "%s/rowlock-tiny-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
  c->file = fdopen(mkstemp(c->path), "wb");
  c->random = random;
}

static inline void tiny_checkpoint_write(tiny_checkpoint* c) {
  tiny_checkpoint_open(c, 7);
  int q = TINY_HEADS * TINY_HEAD_DIM, kv = TINY_KV_HEADS * TINY_HEAD_DIM;
  tiny_tensor(c, TINY_VOCAB, TINY_HIDDEN, 4, 0, "model.embed_tokens.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "model.norm.weight");
  for (int i = 0; i < TINY_LAYERS; i++) {
    tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "model.layers.%d.input_layernorm.weight", i);
    tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 1, "model.layers.%d.post_attention_layernorm.weight", i);
    tiny_tensor(c, q, TINY_HIDDEN, 1, 0, "model.layers.%d.self_attn.q_proj.weight", i);
    tiny_tensor(c, kv, TINY_HIDDEN, 1, 0, "model.layers.%d.self_attn.k_proj.weight", i);
    tiny_tensor(c, kv, TINY_HIDDEN, 1, 0, "model.layers.%d.self_attn.v_proj.weight", i);
    tiny_tensor(c, TINY_HIDDEN, q, 1, 0, "model.layers.%d.self_attn.o_proj.weight", i);
    tiny_tensor(c, TINY_INTERMEDIATE, TINY_HIDDEN, 1, 0, "model.layers.%d.mlp.gate_proj.weight", i);
    tiny_tensor(c, TINY_INTERMEDIATE, TINY_HIDDEN, 1, 0, "model.layers.%d.mlp.up_proj.weight", i);
    tiny_tensor(c, TINY_HIDDEN, TINY_INTERMEDIATE, 1, 0, "model.layers.%d.mlp.down_proj.weight", i);
  }
  fclose(c->file);
}

static void tiny_checkpoint_remove(tiny_checkpoint* c) { unlink(c->path); }

#endif
