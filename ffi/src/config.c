#include "config.h"

#include <stdlib.h>
#include <string.h>

int32_t config_parse(config* c, const char* text) {
  *c = (config){.length = strlen(text), .status = RL_OK};
  c->text = malloc(c->length + 1);
  if (c->text == NULL) return rl_fail(RL_ERR_MEMORY, "Cannot keep a config of %zu bytes", c->length);
  memcpy(c->text, text, c->length + 1);
  for (char* line = c->text; *line != '\0';) {
    char *end = strchr(line, '\n'), *equals = strchr(line, '=');
    if (equals == NULL || (end != NULL && equals > end)) {
      int32_t status = rl_fail(RL_ERR_ARGUMENT, "A config line has no '=': %.60s", line);
      config_free(c);
      return status;
    }
    *equals = '\0';
    if (end == NULL) break;
    *end = '\0';
    line = end + 1;
  }
  return RL_OK;
}

void config_free(config* c) {
  free(c->text);
  c->text = NULL;
}

static const char* find(const config* c, const char* key) {
  const char *p = c->text, *end = c->text + c->length;
  while (p < end) {
    const char* value = p + strlen(p) + 1;
    if (value > end) return NULL;
    if (strcmp(p, key) == 0) return value;
    p = value + strlen(value) + 1;
  }
  return NULL;
}

bool config_has(const config* c, const char* key) { return find(c, key) != NULL; }

const char* config_text(const config* c, const char* key) {
  const char* value = find(c, key);
  return value != NULL ? value : "";
}

const char* config_entry(const config* c, const char* key, int i) {
  const char* entry = find(c, key);
  for (; i > 0 && entry != NULL; i--) {
    entry = strchr(entry, ',');
    if (entry != NULL) entry++;
  }
  return entry;
}

double config_float(config* c, const char* key, double low, double high) {
  if (c->status != RL_OK) return low;
  const char* value = find(c, key);
  char* end = NULL;
  double number = value != NULL ? strtod(value, &end) : 0;
  if (value == NULL) c->status = rl_fail(RL_ERR_MODEL, "The model config has no %s", key);
  else if (end == value || *end != '\0') c->status = rl_fail(RL_ERR_MODEL, "The model config's %s is not a number: %s", key, value);
  else if (!(number >= low && number <= high))
    c->status = rl_fail(RL_ERR_MODEL, "The model config's %s is %s, outside %g … %g", key, value, low, high);
  else return number;
  return low;
}

int config_int(config* c, const char* key, int low, int high) {
  double number = config_float(c, key, low, high);
  if (c->status == RL_OK && number != (int)number)
    c->status = rl_fail(RL_ERR_MODEL, "The model config's %s is not whole: %s", key, config_text(c, key));
  return (int)number;
}

bool config_bool(const config* c, const char* key) {
  const char* value = config_text(c, key);
  return strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
}
