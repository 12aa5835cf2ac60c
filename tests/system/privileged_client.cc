// A program that tests run with privileges: starts the library, and reports the result.
#include <wherry/cuda.h>

#include <cstdio>

int main() {
  const char* name = "unknown";
  cuGetErrorName(cuInit(0), &name);
  std::printf("%s\n", name);
}
