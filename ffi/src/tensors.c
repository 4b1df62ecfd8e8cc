#include "tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int32_t map_file(tensor_table* table, const char* path, const mapped_file** found) {
  for (size_t i = 0; i < table->num_files; i++)
    if (strcmp(table->files[i].path, path) == 0) return *found = &table->files[i], RL_OK;
  mapped_file* files = realloc(table->files, (table->num_files + 1) * sizeof *files);
  if (files == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory while mapping %s", path);
  table->files = files;
  struct stat status;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return rl_fail(RL_ERR_MODEL, "Cannot open %s: %s", path, strerror(errno));
  bool is_readable = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  void* data = is_readable ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
  close(descriptor);
  if (data == MAP_FAILED) return rl_fail(RL_ERR_MODEL, "Cannot map %s into memory", path);
  table->files[table->num_files] = (mapped_file){path, data, (uint64_t)status.st_size};
  *found = &table->files[table->num_files++];
  return RL_OK;
}

static bool parse_shape(char* text, tensor* t) {
  char* rest = NULL;
  for (char* dim = strtok_r(text, ",", &rest); dim != NULL; dim = strtok_r(NULL, ",", &rest)) {
    char* end;
    long long size = strtoll(dim, &end, 10);
    if (*end != '\0' || size <= 0 || size > INT32_MAX || t->num_dims == TENSOR_MAX_DIMS) return false;
    t->shape[t->num_dims++] = size;
  }
  return t->num_dims > 0;
}

/* Bytes that shape and type ask for, 0 when the last dimension is no whole number of blocks. */
static uint64_t wanted_bytes(const tensor* t) {
  uint64_t values = 1, bytes;
  for (int i = 0; i < t->num_dims; i++)
    if (__builtin_mul_overflow(values, (uint64_t)t->shape[i], &values)) return 0;
  if (t->shape[t->num_dims - 1] % t->type->block_size != 0) return 0;
  if (__builtin_mul_overflow(values / (uint64_t)t->type->block_size, (uint64_t)t->type->block_bytes, &bytes)) return 0;
  return bytes;
}

enum { NUM_FIELDS = 6 };

static int32_t parse_line(tensor_table* table, char* line) {
  char* fields[NUM_FIELDS];
  for (int i = 0; i < NUM_FIELDS; i++) {
    fields[i] = line;
    char* tab = strchr(line, '\t');
    if (i + 1 < NUM_FIELDS && tab == NULL)
      return rl_fail(RL_ERR_ARGUMENT, "A tensor line has %d fields, expected %d: %.80s", i + 1, NUM_FIELDS, fields[0]);
    if (tab != NULL) *tab = '\0', line = tab + 1;
  }
  tensor t = {.name = fields[0], .type = tensor_type_named(fields[1])};
  uint64_t offset = strtoull(fields[3], NULL, 10);
  t.num_bytes = strtoull(fields[4], NULL, 10);
  if (t.type == NULL) return rl_fail(RL_ERR_MODEL, "Tensor %s has the type %s, which is not supported", t.name, fields[1]);
  if (!parse_shape(fields[5], &t)) return rl_fail(RL_ERR_MODEL, "Tensor %s has a shape that is no list of sizes", t.name);
  uint64_t wanted = wanted_bytes(&t);
  if (wanted != t.num_bytes || wanted == 0)
    return rl_fail(RL_ERR_MODEL, "Tensor %s has %llu bytes, its shape and type ask for %llu", t.name, (unsigned long long)t.num_bytes,
                   (unsigned long long)wanted);
  const mapped_file* file = NULL;
  int32_t status = map_file(table, fields[2], &file);
  if (status != RL_OK) return status;
  if (offset > file->num_bytes || t.num_bytes > file->num_bytes - offset)
    return rl_fail(RL_ERR_MODEL, "Tensor %s lies at byte %llu + %llu of %s, which has %llu bytes", t.name, (unsigned long long)offset,
                   (unsigned long long)t.num_bytes, file->path, (unsigned long long)file->num_bytes);
  t.data = file->data + offset;
  table->tensors[table->num_tensors++] = t;
  return RL_OK;
}

static int compare_names(const void* a, const void* b) { return strcmp(((const tensor*)a)->name, ((const tensor*)b)->name); }

int32_t tensors_open(tensor_table* table, const char* text) {
  size_t num_lines = 1;
  for (const char* p = text; *p != '\0'; p++) num_lines += *p == '\n';
  *table = (tensor_table){.text = strdup(text), .tensors = calloc(num_lines, sizeof(tensor))};
  if (table->text == NULL || table->tensors == NULL) return rl_fail(RL_ERR_MEMORY, "Cannot keep a table of %zu tensors", num_lines);
  int32_t status = RL_OK;
  for (char *line = table->text, *next; line != NULL && *line != '\0' && status == RL_OK; line = next) {
    char* end = strchr(line, '\n');
    next = end != NULL ? end + 1 : NULL;
    if (end != NULL) *end = '\0';
    status = parse_line(table, line);
  }
  qsort(table->tensors, table->num_tensors, sizeof *table->tensors, compare_names);
  return status;
}

void tensors_close(tensor_table* table) {
  for (size_t i = 0; i < table->num_files; i++) munmap(table->files[i].data, table->files[i].num_bytes);
  free(table->files);
  free(table->tensors);
  free(table->text);
  *table = (tensor_table){0};
}

void tensor_release(const tensor* t, uint64_t from, uint64_t to) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t start = ((uintptr_t)t->data + from + page - 1) / page * page, end = ((uintptr_t)t->data + to) / page * page;
  if (start < end) madvise((void*)start, end - start, MADV_DONTNEED);
}

const tensor* tensors_find(const tensor_table* table, const char* name) {
  tensor key = {.name = name};
  if (table->num_tensors == 0) return NULL;
  return bsearch(&key, table->tensors, table->num_tensors, sizeof key, compare_names);
}
