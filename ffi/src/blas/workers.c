#define _GNU_SOURCE
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A decode step calls a product every few hundredths of a millisecond, and waking a sleeping thread costs about as much as a small product:
 * workers look for the next one for a while before they sleep. */
enum { MAX_WORKERS = 64, SPINS_BEFORE_YIELD = 2000, SPINS_BEFORE_SLEEP = 20000 };

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  atomic_flag is_busy;
  atomic_uint generation; /* raised for every call */
  atomic_int num_left;    /* workers that have not finished the current call */
  atomic_int num_asleep;
  work_part part;
  void* work;
  int count;
} pool = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .is_busy = ATOMIC_FLAG_INIT};

/* On a busy machine the thread that is waited for may need this very CPU. */
static inline void pause_briefly(int num_spins) {
  if (num_spins > SPINS_BEFORE_YIELD && num_spins % 64 == 0) sched_yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static unsigned wait_for_call(unsigned seen) {
  for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
    unsigned generation = atomic_load_explicit(&pool.generation, memory_order_acquire);
    if (generation != seen) return generation;
    pause_briefly(i);
  }
  pthread_mutex_lock(&pool.lock);
  atomic_fetch_add(&pool.num_asleep, 1);
  while (atomic_load(&pool.generation) == seen) pthread_cond_wait(&pool.wake, &pool.lock);
  atomic_fetch_sub(&pool.num_asleep, 1);
  pthread_mutex_unlock(&pool.lock);
  return atomic_load(&pool.generation);
}

static void* worker(void* argument) {
  int index = (int)(size_t)argument;
  for (unsigned seen = 0;;) {
    seen = wait_for_call(seen);
    pool.part(pool.work, index, pool.count);
    atomic_fetch_sub_explicit(&pool.num_left, 1, memory_order_release);
  }
  return NULL;
}

static int wanted_threads(void) {
  const char* text = getenv("ROWLOCK_THREADS");
  int count = text != NULL ? atoi(text) : 0;
#ifdef __linux__
  cpu_set_t cpus;
  if (count <= 0 && sched_getaffinity(0, sizeof cpus, &cpus) == 0) count = CPU_COUNT(&cpus);
#endif
  return count < 1 ? 1 : count > MAX_WORKERS ? MAX_WORKERS : count;
}

static void start(void) {
  pool.count = 1;
  for (int wanted = wanted_threads(); pool.count < wanted; pool.count++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, (void*)(size_t)pool.count) != 0) break;
    pthread_detach(thread);
  }
}

int workers_count(void) {
  pthread_once(&pool.once, start);
  return pool.count;
}

void workers_run(work_part part, void* work) {
  if (workers_count() == 1 || atomic_flag_test_and_set_explicit(&pool.is_busy, memory_order_acquire)) {
    part(work, 0, 1);
    return;
  }
  pool.part = part, pool.work = work;
  atomic_store_explicit(&pool.num_left, pool.count - 1, memory_order_relaxed);
  atomic_fetch_add(&pool.generation, 1);
  if (atomic_load(&pool.num_asleep) > 0) {
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
  }
  part(work, 0, pool.count);
  for (int i = 0; atomic_load_explicit(&pool.num_left, memory_order_acquire) > 0; i++) pause_briefly(i);
  atomic_flag_clear_explicit(&pool.is_busy, memory_order_release);
}
