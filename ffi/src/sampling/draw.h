/* Draws one of the survivors: argmax of logit / temperature + Gumbel noise, in the order of the vocabulary. */
#ifndef ROWLOCK_DRAW_H
#define ROWLOCK_DRAW_H

#include "random_stream.h"
#include "survivors.h"

/* The token drawn; among equal scores the lowest id. Noise belongs to the token id, so it does not matter who else survived. */
int32_t draw_token(const survivors* tokens, float inverse_temperature, stream_key key);

#endif
