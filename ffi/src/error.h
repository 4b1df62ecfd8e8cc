/* One error text per thread, the way every symbol reports what went wrong. */
#ifndef ROWLOCK_ERROR_H
#define ROWLOCK_ERROR_H

#include "rowlock.h"

/* Records the text and returns `code`, so that a caller can `return rl_fail(...)`. */
int32_t rl_fail(int32_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));

#endif
