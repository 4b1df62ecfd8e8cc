/* Little-endian numbers of checkpoint files, and float32 to and from the half types. */
#ifndef ROWLOCK_NUMBER_FORMATS_H
#define ROWLOCK_NUMBER_FORMATS_H

#include <stdint.h>
#include <string.h>

static inline uint16_t read_u16(const uint8_t* bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }
static inline uint32_t read_u32(const uint8_t* bytes) { return read_u16(bytes) | (uint32_t)read_u16(bytes + 2) << 16; }

static inline float bits_to_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float half_to_float(uint16_t bits) {
  _Float16 value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

static inline uint16_t float_to_half(float value) {
  _Float16 half = (_Float16)value;
  uint16_t bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
}

static inline float read_half(const uint8_t* bytes) { return half_to_float(read_u16(bytes)); }

static inline float bfloat_to_float(uint16_t bits) { return bits_to_float((uint32_t)bits << 16); }

/* To the nearest, ties to even; a NaN stays one. */
static inline uint16_t float_to_bfloat(float value) {
  uint32_t bits = float_to_bits(value);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* E8M0, the scale of microscaling formats: 2^(bits - 127). */
static inline float e8m0_to_float(uint8_t bits) { return bits_to_float(bits == 0 ? 0x00400000 : (uint32_t)bits << 23); }

/* E2M1, a 4-bit float: sign, two bits of exponent, one of fraction. */
static inline float fp4_to_float(int bits) {
  static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  return values[bits & 15];
}

#endif
