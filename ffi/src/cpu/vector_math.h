/* Functions of eight floats at once, for kernels that are compiled for the library's own instruction set. */
#ifndef ROWLOCK_VECTOR_MATH_H
#define ROWLOCK_VECTOR_MATH_H

#include <stdint.h>

typedef float floats8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints8 __attribute__((vector_size(32), aligned(4), may_alias));

/* e^x by range reduction to ±ln 2 / 2 and a polynomial of degree 6 (as in Cephes), relative error below 2e-7; 0 below the smallest normal
 * number. A NaN stays one. A macro over vector types, because kernels of several widths share it:
 * V floats, I as many int32, X the argument, RESULT a declared V. */
#define VECTOR_EXP(V, I, X, RESULT)                                                                                  \
  do {                                                                                                               \
    V exp_x = (X);                                                                                                   \
    I exp_is_low = exp_x < -87.3f, exp_is_high = exp_x > 88.3f;                                                      \
    exp_x = (V)(((I)exp_x & ~exp_is_high) | ((I)(exp_x * 0 + 88.3f) & exp_is_high));                                 \
    exp_x = (V)(((I)exp_x & ~exp_is_low) | ((I)(exp_x * 0) & exp_is_low));                                           \
    V exp_shifted = exp_x * 1.44269504f + 12582912.0f; /* adding 1.5 * 2^23 rounds to an integer in the low bits */  \
    V exp_n = exp_shifted - 12582912.0f;                                                                             \
    I exp_power = ((I)exp_shifted << 23) + (I){} + 0x3f800000;                                                       \
    V exp_r = exp_x - exp_n * 0.693359375f;                                                                          \
    exp_r = exp_r - exp_n * -2.12194440e-4f;                                                                         \
    V exp_p = exp_r * 1.9875691500e-4f + 1.3981999507e-3f;                                                           \
    exp_p = exp_p * exp_r + 8.3334519073e-3f;                                                                        \
    exp_p = exp_p * exp_r + 4.1665795894e-2f;                                                                        \
    exp_p = exp_p * exp_r + 1.6666665459e-1f;                                                                        \
    exp_p = exp_p * exp_r + 5.0000001201e-1f;                                                                        \
    exp_p = exp_p * (exp_r * exp_r) + exp_r + 1.0f;                                                                  \
    RESULT = (V)((I)(exp_p * (V)exp_power) & ~exp_is_low);                                                           \
  } while (0)

static inline floats8 exp8(floats8 x) {
  floats8 result;
  VECTOR_EXP(floats8, ints8, x, result);
  return result;
}

/* The sum of the lanes, folded in halves. */
static inline float sum8(floats8 v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

#endif
