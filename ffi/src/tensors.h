/* The tensor table of a checkpoint: which tensors there are, and their bytes in the memory-mapped files. */
#ifndef ROWLOCK_TENSORS_H
#define ROWLOCK_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "dequantize.h"
#include "error.h"

enum { TENSOR_MAX_DIMS = 4 };

typedef struct tensor {
  const char* name;
  const tensor_type* type;
  const uint8_t* data;
  uint64_t num_bytes;
  int num_dims;
  int64_t shape[TENSOR_MAX_DIMS];
} tensor;

typedef struct mapped_file {
  const char* path;
  uint8_t* data;
  uint64_t num_bytes;
} mapped_file;

typedef struct tensor_table {
  char* text; /* own copy of the table's text, cut into fields */
  tensor* tensors; /* sorted by name */
  size_t num_tensors;
  mapped_file* files;
  size_t num_files;
} tensor_table;

/* Parses the table (see rl_model_load), maps the files, and checks that every tensor lies inside its file and has the bytes that its shape
 * and type ask for. */
int32_t tensors_open(tensor_table* table, const char* text);
void tensors_close(tensor_table* table);

/* Bytes [from, to) of a tensor were read and are not needed for now: their pages leave this process's memory, where they would stand beside
 * what was made of them. They stay readable, from the system's cache or the file. */
void tensor_release(const tensor* t, uint64_t from, uint64_t to);

/* NULL when there is none of that name. */
const tensor* tensors_find(const tensor_table* table, const char* name);

#endif
