#define _GNU_SOURCE
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* A decode step calls a product every few hundredths of a millisecond, and waking a sleeping thread costs about as much as a small product:
 * workers look for the next one for a while before they sleep. */
enum { MAX_WORKERS = 64, SPINS_BEFORE_YIELD = 500, SPINS_BEFORE_SLEEP = 6000 };

/* The call that is open: its number, its parts, and the next part that nobody has taken. One word, so that a part is taken only of the call
 * that was looked at. On a busy machine a worker that does not get its CPU takes no part, and nobody waits for it. */
typedef struct ticket {
  uint32_t call;
  uint16_t count, next;
} ticket;

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  atomic_flag is_busy;
  _Atomic(uint64_t) open;
  atomic_int num_done;
  atomic_int num_asleep;
  work_part part;
  void* work;
  int num_threads;
} pool = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .is_busy = ATOMIC_FLAG_INIT};

static uint64_t pack(ticket t) { return (uint64_t)t.call << 32 | (uint64_t)t.count << 16 | t.next; }
static ticket unpack(uint64_t word) { return (ticket){(uint32_t)(word >> 32), (uint16_t)(word >> 16), (uint16_t)word}; }

/* On a busy machine the thread that is waited for may need this very CPU. */
static inline void pause_briefly(int num_spins) {
  if (num_spins > SPINS_BEFORE_YIELD && num_spins % 64 == 0) sched_yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Takes parts of the open call until there are none left. The call cannot end, nor its fields change, while a taken part is not done. */
static void take_parts(void) {
  uint64_t word = atomic_load_explicit(&pool.open, memory_order_acquire);
  for (ticket t = unpack(word); t.next < t.count; t = unpack(word)) {
    if (!atomic_compare_exchange_weak_explicit(&pool.open, &word, word + 1, memory_order_acquire, memory_order_acquire)) continue;
    pool.part(pool.work, t.next, t.count);
    atomic_fetch_add_explicit(&pool.num_done, 1, memory_order_release);
    word = atomic_load_explicit(&pool.open, memory_order_acquire);
  }
}

static bool has_parts(void) {
  ticket t = unpack(atomic_load_explicit(&pool.open, memory_order_acquire));
  return t.next < t.count;
}

static void wait_for_parts(void) {
  for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
    if (has_parts()) return;
    pause_briefly(i);
  }
  pthread_mutex_lock(&pool.lock);
  atomic_fetch_add(&pool.num_asleep, 1);
  while (!has_parts()) pthread_cond_wait(&pool.wake, &pool.lock);
  atomic_fetch_sub(&pool.num_asleep, 1);
  pthread_mutex_unlock(&pool.lock);
}

static void* worker(void* unused) {
  (void)unused;
  for (;;) {
    wait_for_parts();
    take_parts();
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
  pool.num_threads = 1;
  for (int wanted = wanted_threads(); pool.num_threads < wanted; pool.num_threads++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL) != 0) break;
    pthread_detach(thread);
  }
}

int workers_count(void) {
  pthread_once(&pool.once, start);
  return pool.num_threads;
}

static void wake_sleepers(void) {
  if (atomic_load(&pool.num_asleep) == 0) return;
  pthread_mutex_lock(&pool.lock);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
}

void workers_run(work_part part, void* work, int count) {
  if (workers_count() == 1 || atomic_flag_test_and_set_explicit(&pool.is_busy, memory_order_acquire)) {
    for (int i = 0; i < count; i++) part(work, i, count);
    return;
  }
  ticket last = unpack(atomic_load(&pool.open));
  pool.part = part, pool.work = work;
  atomic_store_explicit(&pool.num_done, 0, memory_order_relaxed);
  atomic_store(&pool.open, pack((ticket){last.call + 1, (uint16_t)count, 0}));
  wake_sleepers();
  take_parts();
  for (int i = 0; atomic_load_explicit(&pool.num_done, memory_order_acquire) < count; i++) pause_briefly(i);
  atomic_flag_clear_explicit(&pool.is_busy, memory_order_release);
}
