/* Defines a CUDA function that Wherry does not support: it logs one line at its first call and
   returns an error. */
#ifndef WHERRY_COMPAT_REFUSAL_H
#define WHERRY_COMPAT_REFUSAL_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* CUDA_ERROR_NOT_SUPPORTED and cudaErrorNotSupported. */
enum {
  refused = 801
};

/* Writes the line by one call, so that lines of several threads never mix. */
static inline void say_once(char* said, const char* line, size_t length) {
  if (__atomic_test_and_set(said, __ATOMIC_RELAXED)) return;
  const int saved_errno = errno;
  /* An error of write() cannot be reported, because stderr is the log. */
  if (write(STDERR_FILENO, line, length) < 0) errno = saved_errno;
}

/* Right for every parameter list: by the calling convention the caller removes its arguments. */
#define WHERRY_REFUSE(name)                                            \
  int name(void);                                                      \
  int name(void) {                                                     \
    static const char line[] = "wherry: " #name " is not supported\n"; \
    static char said;                                                  \
    say_once(&said, line, sizeof line - 1);                            \
    return refused;                                                    \
  }

#endif
