/* Part of product_kernels.h: one unit of each type of weights, at `p`, as float32. */

TARGET static inline void NAME(unit_f32)(const uint8_t* p, NAME(vector)* out) {
  for (int v = 0; v < UNIT_VECTORS; v++) out[v] = NAME(load)((const float*)p + v * LANES);
}

TARGET static inline void NAME(unit_f16)(const uint8_t* p, NAME(vector)* out) {
  for (int v = 0; v < UNIT_VECTORS; v++) {
#if LANES == 16
    out[v] = (NAME(vector))_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p + v));
#elif LANES == 8
    out[v] = (NAME(vector))_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + v));
#else
    for (int i = 0; i < LANES; i++) out[v][i] = read_half(p + 2 * (v * LANES + i));
#endif
  }
}

TARGET static inline void NAME(unit_bf16)(const uint8_t* p, NAME(vector)* out) {
  for (int v = 0; v < UNIT_VECTORS; v++) {
#if LANES == 16
    out[v] = (NAME(vector))_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p + v)), 16);
#elif LANES == 8
    out[v] = (NAME(vector))_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p + v)), 16);
#else
    out[v] = (NAME(vector))(__builtin_convertvector(*(const NAME(shorts)*)(p + 2 * v * LANES), NAME(words)) << 16);
#endif
  }
}

/* LANES bytes as numbers. */
TARGET static inline NAME(vector) NAME(bytes)(const uint8_t* p) {
#if LANES == 16
  return (NAME(vector))_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)));
#elif LANES == 8
  return (NAME(vector))_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#else
  NAME(vector) values;
  for (int i = 0; i < LANES; i++) values[i] = (float)p[i];
  return values;
#endif
}

TARGET static inline void NAME(unit_blocks_4)(const uint8_t* p, NAME(vector)* out) {
  const block_4* b = (const void*)p;
#if LANES == 16
  /* A table of the block's 16 values: the permutation looks at the lowest 4 bits of an index. */
  const __m512 integers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512 table = _mm512_fmadd_ps(integers, _mm512_set1_ps(b->scale), _mm512_set1_ps(b->bias));
  __m512i indices = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)b->nibbles));
  out[0] = (NAME(vector))_mm512_permutexvar_ps(indices, table);
  out[1] = (NAME(vector))_mm512_permutexvar_ps(_mm512_srli_epi32(indices, 4), table);
#elif LANES == 8
  __m128i packed = _mm_loadu_si128((const __m128i*)b->nibbles), mask = _mm_set1_epi8(15);
  __m128i halves[] = {_mm_and_si128(packed, mask), _mm_and_si128(_mm_srli_epi16(packed, 4), mask)};
  __m256 scale = _mm256_set1_ps(b->scale), bias = _mm256_set1_ps(b->bias);
  for (int half = 0; half < 2; half++) {
    __m256 first = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(halves[half]));
    __m256 second = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(halves[half], 8)));
    out[2 * half] = (NAME(vector))_mm256_fmadd_ps(first, scale, bias);
    out[2 * half + 1] = (NAME(vector))_mm256_fmadd_ps(second, scale, bias);
  }
#else
  uint8_t values[BLOCK_VALUES];
  for (int i = 0; i < 16; i++) values[i] = b->nibbles[i] & 15, values[16 + i] = b->nibbles[i] >> 4;
  for (int v = 0; v < UNIT_VECTORS; v++) out[v] = NAME(bytes)(values + v * LANES) * b->scale + b->bias;
#endif
}

TARGET static inline void NAME(unit_blocks_8)(const uint8_t* p, NAME(vector)* out) {
  const block_8* b = (const void*)p;
  for (int v = 0; v < UNIT_VECTORS; v++) out[v] = NAME(bytes)(b->values + v * LANES) * b->scale + b->bias;
}

TARGET static inline void NAME(unit_blocks_8_halves)(const uint8_t* p, NAME(vector)* out) {
  const block_8_halves* b = (const void*)p;
  for (int v = 0; v < UNIT_VECTORS; v++) {
    int half = v * LANES / 16;
    out[v] = NAME(bytes)(b->values + v * LANES) * b->scales[half] + b->biases[half];
  }
}
