// What the log says of a function that is given as a kernel and is none. This program is linked
// without -rdynamic.
#include <wherry/cuda_runtime_api.h>
#include <cstdlib>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::kernel_message_test {

extern "C" void axpy(const wherryLaunchInfo*, void**) {}
WHERRY_KERNEL_PARAMS(axpy, sizeof(double*));

namespace {

// Launches the function twice and returns what the log says.
std::string log_of_launches(const void* function) {
  const Outcome outcome = in_fresh_process([=] {
    for (int i = 0; i < 2; ++i)
      expect(cudaLaunchKernel(function, dim3(1), dim3(1), nullptr, 0, nullptr) ==
                 cudaErrorInvalidDeviceFunction,
             "the function is a kernel");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  return outcome.err;
}

}  // namespace

TEST_CASE("the log says that a program with kernels is linked with -rdynamic") {
  const std::string log = log_of_launches(reinterpret_cast<const void*>(&axpy));
  CHECK_THAT(log, Catch::Matchers::StartsWith("wherry: axpy (") &&
                      Catch::Matchers::ContainsSubstring(
                          "is no kernel: no exported function begins there; declare it "
                          "extern \"C\", not static, and link the program with "
                          "-rdynamic\n"));
  CHECK(log.find('\n') == log.size() - 1);  // one line for two launches
}

TEST_CASE("the log says that the sizes of a kernel's parameters are declared beside it") {
  CHECK_THAT(log_of_launches(reinterpret_cast<const void*>(&std::atoi)),
             Catch::Matchers::ContainsSubstring(
                 "is no kernel: the sizes of its parameters are not declared; write "
                 "WHERRY_KERNEL_PARAMS(atoi, ...) beside it\n"));
}

}  // namespace wherry::test::kernel_message_test
