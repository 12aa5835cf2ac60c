// A program that tests give privileges: starts the library, and says how it ended.
#include <wherry/cuda.h>

#include <cstdio>

int main() {
  const char* name = "unknown";
  cuGetErrorName(cuInit(0), &name);
  std::printf("%s\n", name);
}
