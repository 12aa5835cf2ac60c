#include "pages/minimum_residency.h"

#include "support/catch.h"

namespace wherry::test::minimum_residency_test {
namespace {

using namespace wherry::impl;

constexpr std::uint64_t second = 1'000'000'000;
constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);

TEST_CASE("pages without minimum residency may be moved at once") {
  const MinimumResidency minimum_residency;
  for (const std::uint64_t now : {std::uint64_t{0} + second, 60 * second, 1000 * second + 17})
    CHECK(minimum_residency.end_of({0, 512}, device, now) <= now);
}

TEST_CASE("pages stay until the wake, and for a moment afterwards") {
  MinimumResidency minimum_residency;
  const std::uint64_t now = 5 * second;
  minimum_residency.begin({16, 16}, host, now);
  CHECK(minimum_residency.end_of({20, 1}, device, now + 1'000'000) > now + 1'000'000);
  minimum_residency.woken({16, 16}, host, now + 1'000'000);
  const std::uint64_t end = minimum_residency.end_of({20, 1}, device, now + 1'000'000);
  CHECK(end >= now + 1'000'000 + MinimumResidency::residence_ns - 2048);
  CHECK(end <= now + 1'000'000 + MinimumResidency::residence_ns + 2048);
  CHECK(minimum_residency.end_of({20, 1}, device, end + 2048) <= end + 2048);
}

TEST_CASE("the processor that got the pages does not wait") {
  MinimumResidency minimum_residency;
  minimum_residency.begin({0, 16}, device, second);
  CHECK(minimum_residency.end_of({0, 16}, device, second) <= second);
  CHECK(minimum_residency.end_of({0, 16}, host, second) > second);
}

TEST_CASE("a late wake does not change another processor's minimum residency") {
  MinimumResidency minimum_residency;
  minimum_residency.begin({0, 16}, device, second);
  minimum_residency.begin({0, 16}, host, 2 * second);
  const std::uint64_t end = minimum_residency.end_of({0, 16}, device, 2 * second);
  minimum_residency.woken({0, 16}, device, 2 * second);
  CHECK(minimum_residency.end_of({0, 16}, device, 2 * second) == end);
}

TEST_CASE("without a wake pages stay for a limited time") {
  MinimumResidency minimum_residency;
  minimum_residency.begin({0, 1}, host, second);
  const std::uint64_t later = second + MinimumResidency::unwoken_limit_ns + 4096;
  CHECK(minimum_residency.end_of({0, 1}, device, later) <= later);
}

TEST_CASE("each region has its own minimum residency, and the longest one counts for a run") {
  MinimumResidency minimum_residency;
  minimum_residency.begin({32, 16}, host, second);
  CHECK(minimum_residency.end_of({0, 32}, device, second) <= second);
  CHECK(minimum_residency.end_of({48, 16}, device, second) <= second);
  CHECK(minimum_residency.end_of({31, 2}, device, second) > second);
  CHECK(minimum_residency.end_of({0, 512}, device, second) > second);
}

TEST_CASE("a minimum residency of some time ago has ended") {
  MinimumResidency minimum_residency;
  minimum_residency.begin({0, 16}, host, second);
  for (std::uint64_t later = 2 * second; later < 240 * second; later += second)
    CHECK(minimum_residency.end_of({0, 16}, device, later) <= later);
}

}  // namespace
}  // namespace wherry::test::minimum_residency_test
