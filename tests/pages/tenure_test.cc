#include "pages/tenure.h"

#include <catch2/catch.hpp>

namespace wherry::test {
namespace {

using namespace wherry::impl;

constexpr std::uint64_t minute = 60'000'000'000;

TEST_CASE("what nobody was given may be taken at once") {
  const Tenures tenures;
  for (const std::uint64_t now : {std::uint64_t{0}, minute, 1000 * minute + 17})
    CHECK(tenures.end_of({0, 512}, now) <= now);
}

TEST_CASE("pages are kept until the wake, and a moment more") {
  Tenures tenures;
  const std::uint64_t now = 5 * minute;
  tenures.begin({16, 16}, now);
  CHECK(tenures.end_of({20, 1}, now + 1'000'000) > now + 1'000'000);
  tenures.woken({16, 16}, now + 1'000'000);
  const std::uint64_t end = tenures.end_of({20, 1}, now + 1'000'000);
  CHECK(end >= now + 1'000'000 + Tenures::residence_ns - 2048);
  CHECK(end <= now + 1'000'000 + Tenures::residence_ns + 2048);
  CHECK(tenures.end_of({20, 1}, end + 2048) <= end + 2048);
}

TEST_CASE("a wake that never comes holds the pages for a limited time") {
  Tenures tenures;
  tenures.begin({0, 1}, minute);
  const std::uint64_t later = minute + Tenures::unwoken_limit_ns + 4096;
  CHECK(tenures.end_of({0, 1}, later) <= later);
}

TEST_CASE("each region has a tenure of its own, and the longest one counts for a run") {
  Tenures tenures;
  tenures.begin({32, 16}, minute);
  CHECK(tenures.end_of({0, 32}, minute) <= minute);
  CHECK(tenures.end_of({48, 16}, minute) <= minute);
  CHECK(tenures.end_of({31, 2}, minute) > minute);
  CHECK(tenures.end_of({0, 512}, minute) > minute);
}

TEST_CASE("a tenure of long ago is over") {
  Tenures tenures;
  tenures.begin({0, 16}, minute);
  for (std::uint64_t later = 2 * minute; later < 70 * minute; later += minute)
    CHECK(tenures.end_of({0, 16}, later) <= later);
}

}  // namespace
}  // namespace wherry::test
