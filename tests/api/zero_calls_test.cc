// Every call that is refused says why: all functions, called with zeros.
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <set>
#include <string>

#include "api/exported_calls.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

using namespace wherry::test;

namespace {

// These functions accept zeros, and end or change what the other functions need. The last two
// record no failure, because programs call them to report one.
const std::set<std::string> left_out = {"cuDevicePrimaryCtxRelease",
                                        "cuDevicePrimaryCtxRelease_v2",
                                        "cuDevicePrimaryCtxReset",
                                        "cuDevicePrimaryCtxReset_v2",
                                        "cudaDeviceReset",
                                        "cuStreamBeginCapture_v2_ptsz",
                                        "cudaStreamBeginCapture_ptsz",
                                        "cuGetErrorName",
                                        "cuGetErrorString"};

bool is_failure(int result) {
  return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

// "NAME: CODE (description): reason; what to do"; some ask a question instead of "; ".
bool has_reason(const std::string& message) {
  const std::size_t reason = message.find("): ");
  return reason != std::string::npos && message.find_first_of(";?", reason) != std::string::npos;
}

bool is_of_driver_api(const std::string& name) {
  return name.starts_with("cu") && !name.starts_with("cuda") && name != "cuInit";
}
bool is_any(const std::string&) {
  return true;
}

// The messages that lack a reason, one a line.
std::string generic_messages(bool (*takes)(const std::string& name)) {
  std::string generic;
  for (const ExportedCall& call : exported_calls()) {
    if (!takes(call.name) || left_out.contains(call.name)) continue;
    if (!is_failure(call.with_zeros())) continue;
    const std::string message = wherryGetLastErrorMessage();
    if (!has_reason(message)) generic += std::string(call.name) + ": " + message + "\n";
  }
  return generic;
}

void expect_reasons(bool (*takes)(const std::string& name)) {
  const std::string generic = generic_messages(takes);
  expect(generic.empty(), generic);
}

void require_passed(const Outcome& outcome) {
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
}

}  // namespace

TEST_CASE("without cuInit all refusals of the driver API have a reason", "[api]") {
  require_passed(in_fresh_process([] { expect_reasons(is_of_driver_api); }));
}

// The runtime API would make a context current.
TEST_CASE("without a current context all refusals of the driver API have a reason", "[api]") {
  require_passed(in_fresh_process([] {
    const Session session("capacity=64M;capacity=64M");
    WHERRY_TRY(cuCtxSetCurrent(nullptr));
    expect_reasons(is_of_driver_api);
  }));
}

TEST_CASE("all refusals of calls with zeros have a reason", "[api]") {
  require_passed(in_fresh_process([] {
    const Session session("capacity=64M;capacity=64M");
    expect_reasons(is_any);
  }));
}
