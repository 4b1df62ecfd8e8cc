/* Eight lanes of numbers, in the vector extension that GCC and Clang share.
 *
 * The lane count is part of the result: sums are taken lane by lane in the same order by every compiler and on every device, with AVX2,
 * with NEON or with none of them, so a row draws the same token everywhere.
 */
#ifndef ROWLOCK_SIMD_H
#define ROWLOCK_SIMD_H

#include <stdint.h>
#include <string.h>

/* Always inlined: no vector crosses a call, whose convention would depend on the machine. */
#define SIMD_INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

typedef float f32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef double f64x4 __attribute__((vector_size(32)));

SIMD_INLINE f32x8 load_f32(const float* source) {
  f32x8 value;
  memcpy(&value, source, sizeof value);
  return value;
}

SIMD_INLINE void store_f32(float* target, f32x8 value) {
  memcpy(target, &value, sizeof value);
}

SIMD_INLINE i32x8 load_i32(const int32_t* source) {
  i32x8 value;
  memcpy(&value, source, sizeof value);
  return value;
}

SIMD_INLINE void store_u32(uint32_t* target, u32x8 value) {
  memcpy(target, &value, sizeof value);
}

SIMD_INLINE f32x8 splat_f32(float value) {
  return (f32x8){value, value, value, value, value, value, value, value};
}

SIMD_INLINE i32x8 splat_i32(int32_t value) {
  return (i32x8){value, value, value, value, value, value, value, value};
}

SIMD_INLINE u32x8 splat_u32(uint32_t value) {
  return (u32x8){value, value, value, value, value, value, value, value};
}

SIMD_INLINE f64x4 splat_f64(double value) {
  return (f64x4){value, value, value, value};
}

/* `mask` is what a comparison gives: all bits of a lane or none. */
SIMD_INLINE f32x8 select_f32(i32x8 mask, f32x8 yes, f32x8 no) {
  return (f32x8)((mask & (i32x8)yes) | (~mask & (i32x8)no));
}

/* The larger of each lane; a NaN in `value` gives `best`. */
SIMD_INLINE f32x8 max_f32(f32x8 value, f32x8 best) {
  return select_f32(value > best, value, best);
}

SIMD_INLINE f32x8 min_f32(f32x8 value, f32x8 best) {
  return select_f32(value < best, value, best);
}

SIMD_INLINE u32x8 min_u32(u32x8 value, u32x8 best) {
  u32x8 mask = (u32x8)(value < best);
  return (mask & value) | (~mask & best);
}

/* Folds the lanes by halves, so that no lane is moved alone. */
SIMD_INLINE float largest_f32(f32x8 value) {
  value = max_f32(value, __builtin_shufflevector(value, value, 4, 5, 6, 7, 0, 1, 2, 3));
  value = max_f32(value, __builtin_shufflevector(value, value, 2, 3, 0, 1, 6, 7, 4, 5));
  value = max_f32(value, __builtin_shufflevector(value, value, 1, 0, 3, 2, 5, 4, 7, 6));
  return value[0];
}

SIMD_INLINE float smallest_f32(f32x8 value) {
  return -largest_f32(-value);
}

SIMD_INLINE uint32_t smallest_u32(u32x8 value) {
  value = min_u32(value, __builtin_shufflevector(value, value, 4, 5, 6, 7, 0, 1, 2, 3));
  value = min_u32(value, __builtin_shufflevector(value, value, 2, 3, 0, 1, 6, 7, 4, 5));
  value = min_u32(value, __builtin_shufflevector(value, value, 1, 0, 3, 2, 5, 4, 7, 6));
  return value[0];
}

/* One bit a lane of a comparison, lane 0 lowest. */
SIMD_INLINE uint32_t bits_of(i32x8 mask) {
#if defined(__AVX__)
  return (uint32_t)__builtin_ia32_movmskps256((f32x8)mask);
#else
  mask &= (i32x8){1, 2, 4, 8, 16, 32, 64, 128};
  mask |= __builtin_shufflevector(mask, mask, 4, 5, 6, 7, 0, 1, 2, 3);
  mask |= __builtin_shufflevector(mask, mask, 2, 3, 0, 1, 6, 7, 4, 5);
  mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2, 5, 4, 7, 6);
  return (uint32_t)mask[0];
#endif
}

/* The halves, widened. Element by element is the spelling that compilers turn into whole-vector conversions. */
SIMD_INLINE f64x4 low_f64(f32x8 value) {
  return (f64x4){value[0], value[1], value[2], value[3]};
}

SIMD_INLINE f64x4 high_f64(f32x8 value) {
  return (f64x4){value[4], value[5], value[6], value[7]};
}

SIMD_INLINE double sum_f64(f64x4 value) {
  return (value[0] + value[1]) + (value[2] + value[3]);
}

#endif
