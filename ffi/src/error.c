#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024];

int32_t rl_fail(int32_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  return code;
}

int32_t rl_last_error(char* text, int32_t capacity) {
  if (text != NULL && capacity > 0) snprintf(text, (size_t)capacity, "%s", last_error);
  return (int32_t)strlen(last_error);
}
