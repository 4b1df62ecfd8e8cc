#include "random_stream.h"

#include "error.h"

int32_t rl_random_words(uint64_t seed, uint32_t position, uint32_t* words, int32_t count) {
  if (count < 0) return rl_fail(RL_ERR_ARGUMENT, "count is %d, allowed 0 or more", count);
  if (words == NULL && count > 0) return rl_fail(RL_ERR_ARGUMENT, "words is NULL, %d words are wanted", count);
  const u32x8 steps = {0, 1, 2, 3, 4, 5, 6, 7};
  stream_key key = stream_key_of(seed, position, STREAM_DRAW);
  for (int32_t begin = 0; begin < count; begin += LANES) {
    uint32_t block[LANES];
    store_u32(block, random_words(key, steps + splat_u32((uint32_t)begin)));
    int32_t num_left = count - begin < LANES ? count - begin : LANES;
    memcpy(words + begin, block, (size_t)num_left * sizeof *words);
  }
  return RL_OK;
}
