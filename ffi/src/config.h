/* The flat config of a checkpoint: `key=value` lines, made and checked by the host. */
#ifndef ROWLOCK_CONFIG_H
#define ROWLOCK_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

typedef struct config {
  char* text;      /* own copy, NULs in place of '=' and line ends */
  size_t length;
  int32_t status;  /* RL_OK, or the first error, as in a scope */
} config;

int32_t config_parse(config* c, const char* text);
void config_free(config* c);

bool config_has(const config* c, const char* key);
/* The value, or "" when the key is absent. */
const char* config_text(const config* c, const char* key);
/* The i-th entry of a comma-joined list, with what follows it; NULL when the list is shorter. */
const char* config_entry(const config* c, const char* key, int i);
/* Required numbers: absent, unparsable or outside [low, high] becomes the config's error, and `low` is returned. */
int config_int(config* c, const char* key, int low, int high);
double config_float(config* c, const char* key, double low, double high);
/* "true" and "1" are true; absent is false. */
bool config_bool(const config* c, const char* key);

#endif
