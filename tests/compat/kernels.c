/* A library of kernels for query_client.c. */
#include <wherry/wherry.h>

void add_one(const wherryLaunchInfo* info, void** params) {
  int* numbers = *(int**)params[0];
  const int count = *(int*)params[1];
  for (size_t i = info->begin; i < info->end; ++i)
    if (i < (size_t)count) ++numbers[i];
}
WHERRY_KERNEL_PARAMS(add_one, sizeof(int*), sizeof(int));
