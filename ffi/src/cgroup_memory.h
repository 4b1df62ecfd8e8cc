#ifndef ROWLOCK_CGROUP_MEMORY_H
#define ROWLOCK_CGROUP_MEMORY_H

#include <stdint.h>

/* Bytes that the control groups of this process, and all groups above them, still allow; UINT64_MAX: they set no limit.
 * `membership` is /proc/self/cgroup and `mount` /sys/fs/cgroup, or what tests put in their place. */
uint64_t cgroup_memory_left(const char* membership, const char* mount);

#endif
