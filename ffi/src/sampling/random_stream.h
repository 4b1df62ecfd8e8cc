/* The random numbers of a draw: a counter hash of (seed, position, token id). Nothing is advanced and nothing is stored, so what a row
 * draws depends on neither its neighbours, nor the order of calls, nor the size of the vocabulary.
 * A change to this file changes what seeds mean: raise RL_ABI_VERSION and the tests' fixed values. */
#ifndef ROWLOCK_RANDOM_STREAM_H
#define ROWLOCK_RANDOM_STREAM_H

#include "vector_math.h"

/* What one position of one row needs randomness for; purposes never share words. */
typedef enum stream_purpose { STREAM_DRAW = 0, STREAM_XTC = 1 } stream_purpose;

typedef struct stream_key {
  uint32_t first, second;
} stream_key;

/* No Gumbel number is larger: the word 0 gives -ln(2^-33). */
#define GUMBEL_MAX 22.88f

SIMD_INLINE uint64_t mix_64(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* The 64-bit mixing is paid once a row, so that the words need 32-bit arithmetic only, which vectorizes. */
SIMD_INLINE stream_key stream_key_of(uint64_t seed, uint32_t position, stream_purpose purpose) {
  uint64_t row = mix_64(seed + UINT64_C(0x9e3779b97f4a7c15));
  uint64_t counter = ((uint64_t)purpose << 32) | position;
  uint64_t key = mix_64(row + (counter + 1) * UINT64_C(0xd1342543de82ef95));
  return (stream_key){(uint32_t)key, (uint32_t)(key >> 32)};
}

/* One word a token: the rounds of the hash that is known as triple32, whose constants were searched for low bias, with the key added around
 * the first one, so that neither half of the key alone says how two streams lie to each other. */
SIMD_INLINE u32x8 random_words(stream_key key, u32x8 token) {
  u32x8 x = token + splat_u32(key.first);
  x = (x ^ (x >> 17)) * splat_u32(0xed5ad4bbu);
  x = (x ^ (x >> 11)) + splat_u32(key.second);
  x = x * splat_u32(0xac4c1b51u);
  x = (x ^ (x >> 15)) * splat_u32(0x31848babu);
  return x ^ (x >> 14);
}

/* (word + 1/2) / 2^32, split in the two halves that float32 holds without rounding. */
SIMD_INLINE void uniform_halves(u32x8 word, f32x8* high, f32x8* low) {
  *high = __builtin_convertvector((i32x8)(word >> 16), f32x8) * splat_f32(0x1p-16f);
  *low = (__builtin_convertvector((i32x8)(word & 0xffffu), f32x8) + splat_f32(0.5f)) * splat_f32(0x1p-32f);
}

/* Standard Gumbel numbers g = -ln(E), E = -ln(1 - v), v = (word + 1/2) / 2^32. */
SIMD_INLINE f32x8 gumbel_f32(u32x8 word) {
  f32x8 high, low, complement_high, complement_low;
  uniform_halves(word, &high, &low);
  uniform_halves(~word, &complement_high, &complement_low);
  f32x8 rest = complement_high + complement_low; /* 1 - v, rounded once */
  /* Small v win draws and vanish beside 1: put back what the rounding of 1 - v lost. Above 1/2 the logarithm needs no help. */
  f32x8 lost = ((splat_f32(1.0f) - rest) - high) - low;
  lost = (f32x8)((i32x8)lost & (i32x8)(high < splat_f32(0.5f)));
  f32x8 exponential = splat_f32(0.0f) - (log_f32(rest) + lost);
  return splat_f32(0.0f) - log_f32(exponential);
}

#endif
