/* exp and log of eight lanes, from additions and multiplications only: the same bits on every device (build with -ffp-contract=off). */
#ifndef ROWLOCK_VECTOR_MATH_H
#define ROWLOCK_VECTOR_MATH_H

#include "simd.h"

#define LN2_HIGH 0x1.62ep-1f /* 13 bits: exact when multiplied by an exponent */
#define LN2_LOW 3.19461833e-5f

/* e^x for x <= 0 within 2 units in the last place; 0 below -87, where float32 is about to lose its precision. */
SIMD_INLINE f32x8 exp_f32(f32x8 x) {
  const f32x8 round = splat_f32(0x1.8p23f); /* adding it leaves the nearest integer in the low bits */
  f32x8 shifted = x * splat_f32(1.44269502f) + round;
  f32x8 exponent = shifted - round;
  f32x8 r = (x - exponent * splat_f32(LN2_HIGH)) - exponent * splat_f32(LN2_LOW);
  /* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, interpolated at Chebyshev's nodes; relative error of e^r 1.1e-8 */
  f32x8 q = splat_f32(0.00139262504f);
  q = q * r + splat_f32(0.00836323295f);
  q = q * r + splat_f32(0.0416665524f);
  q = q * r + splat_f32(0.166665763f);
  q = q * r + splat_f32(0.5f);
  f32x8 power = (q * r) * r + r + splat_f32(1.0f);
  u32x8 scaled = (u32x8)power + ((u32x8)shifted << 23);
  return (f32x8)(scaled & (u32x8)(x > splat_f32(-87.0f)));
}

/* ln x for normal positive x within 3 units in the last place, also near 1. */
SIMD_INLINE f32x8 log_f32(f32x8 x) {
  const i32x8 sqrt_half = splat_i32(0x3f3504f3);
  i32x8 exponent = ((i32x8)x - sqrt_half) >> 23;
  f32x8 mantissa = (f32x8)((u32x8)x - ((u32x8)exponent << 23)); /* in [sqrt(1/2), sqrt(2)) */
  f32x8 f = mantissa - splat_f32(1.0f);
  f32x8 s = f / (f + splat_f32(2.0f));
  f32x8 z = s * s;
  /* ln(1 + f) = 2 artanh(s) = f - s (f - 2 z (1/3 + z/5 + z^2/7 + z^3/9 + ...)); z <= 0.0295 */
  f32x8 series = splat_f32(1.0f / 9.0f);
  series = series * z + splat_f32(1.0f / 7.0f);
  series = series * z + splat_f32(1.0f / 5.0f);
  series = series * z + splat_f32(1.0f / 3.0f);
  f32x8 power = __builtin_convertvector(exponent, f32x8);
  f32x8 tail = s * (f - splat_f32(2.0f) * z * series) - power * splat_f32(LN2_LOW);
  return (f - tail) + power * splat_f32(LN2_HIGH);
}

#endif
