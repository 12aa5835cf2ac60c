// Checks of a program, which print their line if they fail, and count in `failed`.
#pragma once

#include <cstdio>

static int failed = 0;
#define CHECK(condition)                                  \
  do {                                                    \
    if (!(condition)) {                                   \
      std::printf("line %d: %s\n", __LINE__, #condition); \
      ++failed;                                           \
    }                                                     \
  } while (0)
#define OK(call) CHECK((call) == cudaSuccess)
