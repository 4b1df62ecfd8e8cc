/* Limits of control groups, read from folders that look like those of the kernel. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../src/cgroup_memory.h"
#include "check.h"
#include "rowlock.h"

static char root[] = "cgroups-XXXXXX";

static void put(const char* name, const char* text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", root, name);
  for (char* at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    mkdir(path, 0700);
    *at = '/';
  }
  FILE* file = fopen(path, "w");
  CHECK(file != NULL);
  fputs(text, file);
  fclose(file);
}

static uint64_t left(const char* membership) {
  char path[512];
  put("membership", membership);
  snprintf(path, sizeof path, "%s/membership", root);
  return cgroup_memory_left(path, root);
}

int main(void) {
  CHECK(mkdtemp(root) != NULL);
  CHECK(cgroup_memory_left("/nowhere/at/all", root) == UINT64_MAX);
  CHECK(left("0::/a/b\n") == UINT64_MAX);

  /* The group itself has no limit, the one above it has; file caches give way. */
  put("a/b/memory.max", "max\n"), put("a/b/memory.current", "5000\n");
  CHECK(left("0::/a/b\n") == UINT64_MAX);
  put("a/memory.max", "9000\n"), put("a/memory.current", "6000\n");
  CHECK(left("0::/a/b\n") == 3000);
  put("a/memory.stat", "anon 1\ninactive_file 1000\nactive_file 77\n");
  CHECK(left("0::/a/b\n") == 4000);
  put("a/b/memory.max", "5500\n");
  CHECK(left("0::/a/b\n") == 500);
  put("a/b/memory.max", "4000\n");
  CHECK(left("0::/a/b\n") == 0);
  /* Within a container the mount itself is the group. */
  put("memory.max", "100\n"), put("memory.current", "40\n");
  CHECK(left("0::/\n") == 60);
  CHECK(left("0::/not/there\n") == 60);

  /* Version 1, beside a version 2 that has no memory controller. */
  put("memory.max", "max\n");
  put("memory/x/memory.limit_in_bytes", "800\n"), put("memory/x/memory.usage_in_bytes", "300\n");
  CHECK(left("4:memory:/x\n0::/\n") == 500);
  CHECK(left("7:cpu,memory:/x\n") == 500);
  CHECK(left("7:memory_other:/x\n") == UINT64_MAX);
  put("memory/x/memory.stat", "total_inactive_file 50\n");
  CHECK(left("4:memory:/x/y\n") == 550);

  uint64_t out = 0;
  CHECK(rl_cgroup_memory(NULL) == RL_ERR_ARGUMENT);
  CHECK(rl_cgroup_memory(&out) == RL_OK && out > 0);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK(system(command) == 0);
  return finish();
}
