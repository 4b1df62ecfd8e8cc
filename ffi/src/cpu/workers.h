/* A few threads that share the work of one product. */
#ifndef ROWLOCK_WORKERS_H
#define ROWLOCK_WORKERS_H

/* Does part `index` of `count`. */
typedef void (*work_part)(void* work, int index, int count);

/* Threads that take part, the caller included: the CPUs that this process may use, at most 64; ROWLOCK_THREADS overrides. */
int workers_count(void);

/* Runs `count` (1 … 65535) parts on whoever is free, the caller included, and returns when all are done. One call at a time: another
 * caller does its work alone. */
void workers_run(work_part part, void* work, int count);

#endif
