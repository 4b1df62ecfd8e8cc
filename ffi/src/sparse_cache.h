/* Keys and values of caches that are sparse: the system gives memory to what is written, so that a slot takes what its row needs, whatever the
 * capacity. They are changed where they lie, behind MLX's back: nothing of the cache may be in flight (cache_settle). */
#ifndef ROWLOCK_SPARSE_CACHE_H
#define ROWLOCK_SPARSE_CACHE_H

#include "cache.h"

/* Gives array `i` (2 * layer + which) room for so many slots of so many tokens, and keeps what still fits. */
int32_t sparse_resize(rl_cache* cache, int i, int slots, int capacity);

/* Before the cache gets smaller: forgets what slots that stay hold beyond `capacity`, and all that slots from `slots` on hold. */
void sparse_shrink(rl_cache* cache, int slots, int capacity);

/* Moves the first `length` tokens of slot `from` in array `i`, and gives their memory back. */
void sparse_move(rl_cache* cache, int i, int from, int to, int length);

/* Makes zeros of what a slot holds; its memory goes back, up to the end of every head's last page. */
void sparse_release(rl_cache* cache, int slot);

/* Where the tokens from `first_token` on of a head of a slot lie in array `i` of any cache in the host's memory, and the bytes of each. */
uint8_t* cache_tokens(const rl_cache* cache, int i, int slot, int head, int first_token, size_t* token_bytes);

#endif
