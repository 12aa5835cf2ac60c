#include "streams/failure_text.h"

#include <catch2/catch.hpp>
#include <csignal>

namespace wherry::test::failure_text_test {

using namespace wherry::impl;

TEST_CASE("the message about a crash names device, process, kernel and address", "[streams]") {
  DeviceFailure failure;
  failure.kind = DeviceFailure::Kind::illegal_address;
  failure.address = 0xdead000;
  const auto kernel = reinterpret_cast<std::uintptr_t>(&describe_failure);
  const std::string line = describe_failure(3, 4711, failure, kernel);
  CHECK_THAT(line, Catch::Contains("device 3") && Catch::Contains("4711") &&
                       Catch::Contains(describe_code_address(kernel)) &&
                       Catch::Contains("0xdead000"));
}

TEST_CASE("the message about another end says what ended the process", "[streams]") {
  DeviceFailure failure;
  failure.kind = DeviceFailure::Kind::signal;
  failure.signal = SIGFPE;
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Contains("signal 8"));
  failure.kind = DeviceFailure::Kind::exception;
  failure.what = "out of ideas";
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Contains("out of ideas"));
  failure.kind = DeviceFailure::Kind::exited;
  failure.signal = 12;
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Contains("exit(12)"));
  failure.kind = DeviceFailure::Kind::lost;
  CHECK_THAT(describe_failure(0, 1, failure, 0), Catch::Contains("killed"));
}

}  // namespace wherry::test::failure_text_test
