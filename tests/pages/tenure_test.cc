#include "pages/tenure.h"

#include <catch2/catch.hpp>

namespace wherry::test {
namespace {

using namespace wherry::impl;

constexpr std::uint64_t second = 1'000'000'000;
constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);

TEST_CASE("what nobody was given may be taken at once") {
  const Tenures tenures;
  for (const std::uint64_t now : {std::uint64_t{0} + second, 60 * second, 1000 * second + 17})
    CHECK(tenures.end_of({0, 512}, device, now) <= now);
}

TEST_CASE("pages are kept until the wake, and a moment more") {
  Tenures tenures;
  const std::uint64_t now = 5 * second;
  tenures.begin({16, 16}, host, now);
  CHECK(tenures.end_of({20, 1}, device, now + 1'000'000) > now + 1'000'000);
  tenures.woken({16, 16}, host, now + 1'000'000);
  const std::uint64_t end = tenures.end_of({20, 1}, device, now + 1'000'000);
  CHECK(end >= now + 1'000'000 + Tenures::residence_ns - 2048);
  CHECK(end <= now + 1'000'000 + Tenures::residence_ns + 2048);
  CHECK(tenures.end_of({20, 1}, device, end + 2048) <= end + 2048);
}

TEST_CASE("who has the tenure does not wait for it") {
  Tenures tenures;
  tenures.begin({0, 16}, device, second);
  CHECK(tenures.end_of({0, 16}, device, second) <= second);
  CHECK(tenures.end_of({0, 16}, host, second) > second);
}

TEST_CASE("a late wake does not lengthen or shorten another's tenure") {
  Tenures tenures;
  tenures.begin({0, 16}, device, second);
  tenures.begin({0, 16}, host, 2 * second);
  const std::uint64_t end = tenures.end_of({0, 16}, device, 2 * second);
  tenures.woken({0, 16}, device, 2 * second);
  CHECK(tenures.end_of({0, 16}, device, 2 * second) == end);
}

TEST_CASE("a wake that never comes holds the pages for a limited time") {
  Tenures tenures;
  tenures.begin({0, 1}, host, second);
  const std::uint64_t later = second + Tenures::unwoken_limit_ns + 4096;
  CHECK(tenures.end_of({0, 1}, device, later) <= later);
}

TEST_CASE("each region has a tenure of its own, and the longest one counts for a run") {
  Tenures tenures;
  tenures.begin({32, 16}, host, second);
  CHECK(tenures.end_of({0, 32}, device, second) <= second);
  CHECK(tenures.end_of({48, 16}, device, second) <= second);
  CHECK(tenures.end_of({31, 2}, device, second) > second);
  CHECK(tenures.end_of({0, 512}, device, second) > second);
}

TEST_CASE("a tenure of some time ago is over") {
  Tenures tenures;
  tenures.begin({0, 16}, host, second);
  for (std::uint64_t later = 2 * second; later < 240 * second; later += second)
    CHECK(tenures.end_of({0, 16}, device, later) <= later);
}

}  // namespace
}  // namespace wherry::test
