#include "repack.h"

#include <string.h>

#include "number_formats.h"

/* `block` with `sub`, the index of the group in it, to one group. */
typedef void (*read_group)(const uint8_t* block, int sub, value_group* g);

static void set_scale(value_group* g, float scale, float bias) {
  g->scales[0] = g->scales[1] = scale;
  g->biases[0] = g->biases[1] = bias;
}

static void nibbles_and_fifths(const uint8_t* nibbles, uint32_t fifths, value_group* g) {
  for (int i = 0; i < 16; i++) {
    g->values[i] = (uint8_t)((nibbles[i] & 15) | (fifths >> i & 1) << 4);
    g->values[i + 16] = (uint8_t)((nibbles[i] >> 4) | (fifths >> (i + 16) & 1) << 4);
  }
}

static void read_q4_0(const uint8_t* block, int sub, value_group* g) {
  (void)sub;
  nibbles_and_fifths(block + 2, 0, g);
  float scale = read_half(block);
  set_scale(g, scale, -8 * scale);
}

static void read_q4_1(const uint8_t* block, int sub, value_group* g) {
  (void)sub;
  nibbles_and_fifths(block + 4, 0, g);
  set_scale(g, read_half(block), read_half(block + 2));
}

static void read_q5_0(const uint8_t* block, int sub, value_group* g) {
  (void)sub;
  nibbles_and_fifths(block + 6, read_u32(block + 2), g);
  float scale = read_half(block);
  set_scale(g, scale, -16 * scale);
}

static void read_q5_1(const uint8_t* block, int sub, value_group* g) {
  (void)sub;
  nibbles_and_fifths(block + 8, read_u32(block + 4), g);
  set_scale(g, read_half(block), read_half(block + 2));
}

static void read_q8_0(const uint8_t* block, int sub, value_group* g) {
  (void)sub;
  for (int i = 0; i < REPACK_GROUP_SIZE; i++) g->values[i] = (uint8_t)((int8_t)block[2 + i] + 128);
  float scale = read_half(block);
  set_scale(g, scale, -128 * scale);
}

static void read_k(const uint8_t* block, int sub, const uint8_t* nibbles, const uint8_t* fifths, value_group* g) {
  int scale, minimum;
  k_scale_min(block + 4, sub, &scale, &minimum);
  set_scale(g, read_half(block) * (float)scale, -read_half(block + 2) * (float)minimum);
  for (int i = 0; i < REPACK_GROUP_SIZE; i++) {
    int fifth = fifths != NULL ? fifths[i] >> sub & 1 : 0;
    g->values[i] = (uint8_t)((nibbles[sub / 2 * 32 + i] >> (sub % 2 * 4) & 15) | fifth << 4);
  }
}

static void read_q4_k(const uint8_t* block, int sub, value_group* g) { read_k(block, sub, block + 16, NULL, g); }
static void read_q5_k(const uint8_t* block, int sub, value_group* g) { read_k(block, sub, block + 48, block + 16, g); }

static void read_q6_k(const uint8_t* block, int sub, value_group* g) {
  for (int half = 0; half < 2; half++) {
    g->scales[half] = read_half(block + 208) * (float)(int8_t)block[192 + 2 * sub + half];
    g->biases[half] = -32 * g->scales[half];
  }
  for (int i = 0; i < REPACK_GROUP_SIZE; i++) {
    int at = REPACK_GROUP_SIZE * sub + i;
    int low = block[at / 128 * 64 + at % 64] >> (at % 128 / 64 * 4) & 15, high = block[128 + at / 128 * 32 + at % 32] >> (at % 128 / 32 * 2) & 3;
    g->values[i] = (uint8_t)(low | high << 4);
  }
}

typedef struct repackable {
  const char* name;
  int bits; /* as MLX packs them, 0 when it cannot */
  block_kind kind;
  read_group read;
} repackable;

static const repackable repackables[] = {
    {"Q4_0", 4, BLOCKS_4, read_q4_0}, {"Q4_1", 4, BLOCKS_4, read_q4_1}, {"Q5_0", 5, BLOCKS_8, read_q5_0},
    {"Q5_1", 5, BLOCKS_8, read_q5_1}, {"Q8_0", 8, BLOCKS_8, read_q8_0}, {"Q4_K", 4, BLOCKS_4, read_q4_k},
    {"Q5_K", 5, BLOCKS_8, read_q5_k}, {"Q6_K", 0, BLOCKS_8_HALVES, read_q6_k},
};

static const repackable* find(const tensor_type* type) {
  for (size_t i = 0; i < sizeof repackables / sizeof *repackables; i++)
    if (strcmp(repackables[i].name, type->name) == 0) return &repackables[i];
  return NULL;
}

int repack_bits(const tensor_type* type) {
  const repackable* r = find(type);
  return r != NULL ? r->bits : 0;
}

/* 32 integers of b bits fill b words exactly. */
static void pack(const uint8_t* values, int bits, uint32_t* words) {
  uint64_t pending = 0;
  int num_pending = 0;
  for (int i = 0; i < REPACK_GROUP_SIZE; i++) {
    pending |= (uint64_t)values[i] << num_pending;
    num_pending += bits;
    if (num_pending < 32) continue;
    *words++ = (uint32_t)pending;
    pending >>= 32;
    num_pending -= 32;
  }
}

void repack_row(const tensor_type* type, const uint8_t* blocks, uint32_t* words, float* scales, float* biases, size_t num_values) {
  const repackable* r = find(type);
  int groups_per_block = type->block_size / REPACK_GROUP_SIZE;
  for (size_t i = 0; i < num_values / REPACK_GROUP_SIZE; i++, words += r->bits) {
    value_group g;
    r->read(blocks + i / (size_t)groups_per_block * (size_t)type->block_bytes, (int)(i % (size_t)groups_per_block), &g);
    pack(g.values, r->bits, words);
    scales[i] = g.scales[0];
    biases[i] = g.biases[0];
  }
}

block_kind repack_kind(const tensor_type* type) {
  const repackable* r = find(type);
  return r != NULL ? r->kind : BLOCKS_NONE;
}

void repack_row_blocks(const tensor_type* type, const uint8_t* stored, uint8_t* blocks, size_t num_values) {
  const repackable* r = find(type);
  int groups_per_block = type->block_size / REPACK_GROUP_SIZE;
  for (size_t i = 0; i < num_values / REPACK_GROUP_SIZE; i++, blocks += block_bytes(r->kind)) {
    value_group g;
    r->read(stored + i / (size_t)groups_per_block * (size_t)type->block_bytes, (int)(i % (size_t)groups_per_block), &g);
    block_write(r->kind, &g, blocks);
  }
}
