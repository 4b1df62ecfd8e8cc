/* What a load takes at its peak: little more than the weights, although all of the file is read through a mapping. */
#include <stdlib.h>

#include "check.h"
#include "rowlock.h"
#include "tiny_checkpoint.h"

enum { VOCAB = 1 << 16, HIDDEN = 1024, MB = 1 << 20 };

/* VmHWM of this process in MB; 0 where the system does not tell. */
static long peak_mb(void) {
  char line[256];
  long kb = 0;
  FILE* status = fopen("/proc/self/status", "r");
  if (status == NULL) return 0;
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "VmHWM: %ld kB", &kb);
  fclose(status);
  return kb / 1024;
}

/* Zeros, as a hole of the file. */
static void add_tensor(tiny_checkpoint* c, const char* name, int rows, int columns) {
  char shape[32];
  long bytes = 2L * rows * (columns > 0 ? columns : 1);
  if (columns > 0) snprintf(shape, sizeof shape, "%d,%d", rows, columns);
  else snprintf(shape, sizeof shape, "%d", rows);
  CHECK(ftruncate(fileno(c->file), c->offset + bytes) == 0);
  tiny_line(c, name, "BF16", shape, (int)bytes);
}

int main(void) {
  static tiny_checkpoint c;
  rl_model* m = NULL;
  int64_t info[9];
  char text[512];
  tiny_checkpoint_open(&c, 1);
  add_tensor(&c, "model.embed_tokens.weight", VOCAB, HIDDEN);
  add_tensor(&c, "model.norm.weight", HIDDEN, 0);
  static const struct {
    const char* name;
    int rows, columns;
  } layer[] = {{"input_layernorm", HIDDEN, 0}, {"post_attention_layernorm", HIDDEN, 0}, {"self_attn.q_proj", 64, HIDDEN}, {"self_attn.k_proj", 64, HIDDEN},
               {"self_attn.v_proj", 64, HIDDEN}, {"self_attn.o_proj", HIDDEN, 64}, {"mlp.gate_proj", 64, HIDDEN}, {"mlp.up_proj", 64, HIDDEN},
               {"mlp.down_proj", HIDDEN, 64}};
  for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
    snprintf(text, sizeof text, "model.layers.0.%s.weight", layer[i].name);
    add_tensor(&c, text, layer[i].rows, layer[i].columns);
  }
  fclose(c.file);
  snprintf(text, sizeof text,
           "model_type=llama\nvocab_size=%d\nhidden_size=%d\nintermediate_size=64\nnum_hidden_layers=1\nnum_attention_heads=1\nnum_key_value_heads=1\n"
           "head_dim=64\nrms_norm_eps=1e-5\nrope_theta=10000\nrope_type=default\ntie_word_embeddings=true\ndtype=stored\nquant_bits=0\n"
           "quant_group_size=0\n",
           VOCAB, HIDDEN);
  long before = peak_mb();
  CHECK(rl_model_load(text, c.tensors, &m) == RL_OK && rl_model_info(m, info) == RL_OK);
  long weights = (long)(info[0] / MB), more = peak_mb() - before - weights;
  CHECK(weights >= 128);
  CHECK_VALUES(before == 0 || more < 64, "a load of %ld MB took %ld MB more", weights, more);
  CHECK(rl_model_free(m) == RL_OK);
  tiny_checkpoint_remove(&c);
  return finish();
}
