/* The products that MLX's CPU backend asks BLAS for. */
#ifndef ROWLOCK_SGEMM_H
#define ROWLOCK_SGEMM_H

#include <stdbool.h>

/* Whether this processor can run these loops; without, all products go to OpenBLAS. */
bool sgemm_can_stream(void);

/* On: every product adds up its terms in an order that depends on K alone, also those with many rows. */
void sgemm_batch_invariant(bool is_on);
bool sgemm_is_batch_invariant(void);

#endif
