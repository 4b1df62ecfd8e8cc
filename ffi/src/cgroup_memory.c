#include "cgroup_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_LENGTH = 4096 };

/* How one version of control groups names things. */
typedef struct {
  const char* folder; /* below the mount */
  const char* limit;
  const char* usage;
  const char* reclaimable; /* a line of memory.stat: caches of files, which give way */
} group_version;

static const group_version VERSION_1 = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
static const group_version VERSION_2 = {"", "memory.max", "memory.current", "inactive_file"};

static bool read_number(const char* folder, const char* name, uint64_t* out) {
  char path[PATH_LENGTH];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
  FILE* file = fopen(path, "r");
  if (file == NULL) return false;
  /* A group without a limit says "max". */
  bool is_read = fscanf(file, "%" SCNu64, out) == 1;
  fclose(file);
  return is_read;
}

static uint64_t read_stat(const char* folder, const char* wanted) {
  char path[PATH_LENGTH], name[64];
  if (snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path) return 0;
  FILE* file = fopen(path, "r");
  if (file == NULL) return 0;
  uint64_t value = 0, found = 0;
  while (fscanf(file, "%63s %" SCNu64, name, &value) == 2)
    if (strcmp(name, wanted) == 0) found = value;
  fclose(file);
  return found;
}

static uint64_t left_in(const char* folder, const group_version* version) {
  uint64_t limit = 0, usage = 0;
  if (!read_number(folder, version->limit, &limit) || !read_number(folder, version->usage, &usage)) return UINT64_MAX;
  uint64_t reclaimable = read_stat(folder, version->reclaimable);
  uint64_t used = usage > reclaimable ? usage - reclaimable : 0;
  return limit > used ? limit - used : 0;
}

/* The least of the group at `path` and those above it, up to the mount: each of them counts what is below it. */
static uint64_t left_up_from(const char* mount, const group_version* version, const char* path) {
  char folder[PATH_LENGTH];
  int root = snprintf(folder, sizeof folder, "%s%s", mount, version->folder);
  if (root + strlen(path) >= sizeof folder) return UINT64_MAX;
  strcat(folder, path);
  uint64_t least = UINT64_MAX;
  for (;;) {
    uint64_t left = left_in(folder, version);
    if (left < least) least = left;
    char* end = strrchr(folder + root, '/');
    if (end == NULL) return least;
    *end = '\0';
  }
}

/* The controllers of a line are separated by commas; version 2 names none. */
static bool has_memory(const char* controllers) {
  for (const char* at = controllers; (at = strstr(at, "memory")) != NULL; at++) {
    char after = at[strlen("memory")];
    if ((at == controllers || at[-1] == ',') && (after == ',' || after == '\0')) return true;
  }
  return false;
}

uint64_t cgroup_memory_left(const char* membership, const char* mount) {
  FILE* file = fopen(membership, "r");
  if (file == NULL) return UINT64_MAX;
  char line[PATH_LENGTH];
  uint64_t least = UINT64_MAX;
  /* hierarchy:controllers:path */
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char* controllers = strchr(line, ':');
    char* path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) continue;
    *path++ = '\0';
    bool is_version_2 = controllers[1] == '\0';
    if (!is_version_2 && !has_memory(controllers + 1)) continue;
    uint64_t left = left_up_from(mount, is_version_2 ? &VERSION_2 : &VERSION_1, path);
    if (left < least) least = left;
  }
  fclose(file);
  return least;
}
