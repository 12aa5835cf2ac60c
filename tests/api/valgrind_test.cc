// The library detects valgrind by the name of a module that valgrind loads into a program.
// WHERRY_VALGRIND_MODULE is a library with that name.
#include <dlfcn.h>
#include <wherry/cuda.h>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test {

TEST_CASE("In valgrind cuInit answers NOT_SUPPORTED, and one line says why") {
  const Outcome outcome = in_fresh_process([] {
    expect(::dlopen(WHERRY_VALGRIND_MODULE, RTLD_NOW) != nullptr, "dlopen");
    expect(cuInit(0) == CUDA_ERROR_NOT_SUPPORTED, "cuInit");
    int count = 0;
    expect(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED, "the library has started");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err ==
        "wherry: cannot start in valgrind: it has no userfaultfd and no room for the addresses of "
        "managed memory; use gdb or AddressSanitizer (docs/debugging.md)\n");
}

}  // namespace wherry::test
