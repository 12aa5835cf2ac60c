#include "streams/failure_text.h"

#include <csignal>

#include "support/catch.h"

namespace wherry::test::failure_text_test {

using namespace wherry::impl;

TEST_CASE("the message about a crash names device, process, kernel and address", "[streams]") {
  DeviceFailure failure;
  failure.kind = DeviceFailure::Kind::illegal_address;
  failure.address = 0xdead000;
  const auto kernel = reinterpret_cast<std::uintptr_t>(&describe_failure);
  const std::string line = describe_failure(3, 4711, failure, kernel);
  CHECK_THAT(line, Catch::Matchers::ContainsSubstring("device 3") &&
                       Catch::Matchers::ContainsSubstring("4711") &&
                       Catch::Matchers::ContainsSubstring(describe_code_address(kernel)) &&
                       Catch::Matchers::ContainsSubstring("0xdead000"));
}

TEST_CASE("the message about another end says what ended the process", "[streams]") {
  DeviceFailure failure;
  failure.kind = DeviceFailure::Kind::signal;
  failure.signal = SIGFPE;
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Matchers::ContainsSubstring("signal 8"));
  failure.kind = DeviceFailure::Kind::exception;
  failure.what = "out of ideas";
  CHECK_THAT(describe_failure(0, 1, failure, 0),
             Catch::Matchers::ContainsSubstring("out of ideas"));
  failure.kind = DeviceFailure::Kind::exited;
  failure.signal = 12;
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Matchers::ContainsSubstring("exit(12)"));
  failure.kind = DeviceFailure::Kind::lost;
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Matchers::ContainsSubstring("killed"));
}

}  // namespace wherry::test::failure_text_test
