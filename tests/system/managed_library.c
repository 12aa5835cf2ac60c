/* A shared library with managed variables, exported and static ones. It is built twice: the test is
 * linked with one library, and loads the other one later. */
#include <wherry/wherry.h>

WHERRY_MANAGED int library_numbers[3000] = {11, 22, 33};
/* Spans more than one block, and ends inside a page. */
WHERRY_MANAGED char library_large[(3 << 20) + 5] = {1};
static WHERRY_MANAGED int library_secret = 1000;
int library_ordinary = 5;

__attribute__((visibility("default"))) int* library_secret_place(void) {
  return &library_secret;
}

/* A kernel for wherryLaunchKernel: increments both variables, and returns their old values through
 * `args`. */
__attribute__((visibility("default"))) void library_kernel(const void* args, size_t begin,
                                                           size_t end) {
  int* seen = *(int* const*)args;
  (void)begin;
  (void)end;
  seen[0] = library_numbers[1];
  seen[1] = library_secret;
  library_numbers[2] += 1;
  library_secret += 1;
}
