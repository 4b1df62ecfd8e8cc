#include "repack.h"

#include <string.h>

#include "number_formats.h"

/* A group of 32 integers with their scale and bias. */
typedef struct group {
  uint8_t values[REPACK_GROUP_SIZE];
  float scale, bias;
} group;

/* `block` with `sub`, the index of the group in it, to one group. */
typedef void (*read_group)(const uint8_t* block, int sub, group* g);

static void nibbles_and_fifths(const uint8_t* nibbles, uint32_t fifths, group* g) {
  for (int i = 0; i < 16; i++) {
    g->values[i] = (uint8_t)((nibbles[i] & 15) | (fifths >> i & 1) << 4);
    g->values[i + 16] = (uint8_t)((nibbles[i] >> 4) | (fifths >> (i + 16) & 1) << 4);
  }
}

static void read_q4_0(const uint8_t* block, int sub, group* g) {
  (void)sub;
  nibbles_and_fifths(block + 2, 0, g);
  g->scale = read_half(block);
  g->bias = -8 * g->scale;
}

static void read_q4_1(const uint8_t* block, int sub, group* g) {
  (void)sub;
  nibbles_and_fifths(block + 4, 0, g);
  g->scale = read_half(block);
  g->bias = read_half(block + 2);
}

static void read_q5_0(const uint8_t* block, int sub, group* g) {
  (void)sub;
  nibbles_and_fifths(block + 6, read_u32(block + 2), g);
  g->scale = read_half(block);
  g->bias = -16 * g->scale;
}

static void read_q5_1(const uint8_t* block, int sub, group* g) {
  (void)sub;
  nibbles_and_fifths(block + 8, read_u32(block + 4), g);
  g->scale = read_half(block);
  g->bias = read_half(block + 2);
}

static void read_q8_0(const uint8_t* block, int sub, group* g) {
  (void)sub;
  for (int i = 0; i < REPACK_GROUP_SIZE; i++) g->values[i] = (uint8_t)((int8_t)block[2 + i] + 128);
  g->scale = read_half(block);
  g->bias = -128 * g->scale;
}

static void read_k(const uint8_t* block, int sub, const uint8_t* nibbles, const uint8_t* fifths, group* g) {
  int scale, minimum;
  k_scale_min(block + 4, sub, &scale, &minimum);
  g->scale = read_half(block) * (float)scale;
  g->bias = -read_half(block + 2) * (float)minimum;
  for (int i = 0; i < REPACK_GROUP_SIZE; i++) {
    int fifth = fifths != NULL ? fifths[i] >> sub & 1 : 0;
    g->values[i] = (uint8_t)((nibbles[sub / 2 * 32 + i] >> (sub % 2 * 4) & 15) | fifth << 4);
  }
}

static void read_q4_k(const uint8_t* block, int sub, group* g) { read_k(block, sub, block + 16, NULL, g); }
static void read_q5_k(const uint8_t* block, int sub, group* g) { read_k(block, sub, block + 48, block + 16, g); }

typedef struct repackable {
  const char* name;
  int bits;
  read_group read;
} repackable;

static const repackable repackables[] = {
    {"Q4_0", 4, read_q4_0}, {"Q4_1", 4, read_q4_1}, {"Q5_0", 5, read_q5_0}, {"Q5_1", 5, read_q5_1},
    {"Q8_0", 8, read_q8_0}, {"Q4_K", 4, read_q4_k}, {"Q5_K", 5, read_q5_k},
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
    group g;
    r->read(blocks + i / (size_t)groups_per_block * (size_t)type->block_bytes, (int)(i % (size_t)groups_per_block), &g);
    pack(g.values, r->bits, words);
    scales[i] = g.scale;
    biases[i] = g.bias;
  }
}
