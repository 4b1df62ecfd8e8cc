/* The products that MLX's CPU backend asks BLAS for. */
#ifndef ROWLOCK_SGEMM_H
#define ROWLOCK_SGEMM_H

#include <stdbool.h>

/* On: every product adds up its terms in an order that depends on K alone, also those with many rows. */
void sgemm_batch_invariant(bool is_on);
bool sgemm_is_batch_invariant(void);

#endif
