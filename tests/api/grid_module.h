// Argument and result types of the kernels of grid_module.cc, for that file and its tests.
#pragma once

#include <wherry/wherry.h>

#include <atomic>
#include <cstddef>

namespace wherry::test {

struct Seen {
  wherryLaunchInfo info;
  std::atomic<std::size_t> threads;
  int numbers[3];
  char text[64];
  int constructed;
  int calls;
  void* third;
};

// Larger than the part that is copied of a parameter without a declared size.
struct Large {
  double values[20];
};

}  // namespace wherry::test
