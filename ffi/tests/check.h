/* The smallest test harness: CHECK counts, finish() prints the sum and gives the exit code. */
#ifndef ROWLOCK_CHECK_H
#define ROWLOCK_CHECK_H

#include <stdio.h>

static int num_passed, num_failed;

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (condition) num_passed++;                                                   \
    else num_failed++, printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
  } while (0)

/* CHECK_VALUES(condition, "format of the values that explain a failure", …) */
#define CHECK_VALUES(condition, ...)                                                \
  do {                                                                             \
    if (condition) {                                                               \
      num_passed++;                                                                \
    } else {                                                                       \
      num_failed++, printf("%s:%d: failed: %s: ", __FILE__, __LINE__, #condition);   \
      printf(__VA_ARGS__), printf("\n");                                           \
    }                                                                              \
  } while (0)

static inline int finish(void) {
  printf("%d checks passed, %d failed\n", num_passed, num_failed);
  return num_failed == 0 ? 0 : 1;
}

#endif
