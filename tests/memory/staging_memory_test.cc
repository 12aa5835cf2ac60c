#include "memory/staging_memory.h"

#include <cstring>
#include <optional>

#include "base/page.h"
#include "support/catch.h"

namespace wherry::test::staging_memory_test {

using namespace wherry::impl;

TEST_CASE("staged bytes count until the last reference to them is destroyed", "[memory]") {
  StagingMemory staging(4 * page_size);
  auto bytes = staging.take(100);
  REQUIRE(bytes);
  std::memset(bytes.get(), 7, 100);
  CHECK(staging.bytes_taken() == page_size);
  const auto other = bytes;
  bytes.reset();
  CHECK(staging.bytes_taken() == page_size);
  CHECK(other.get()[99] == std::byte{7});
  const auto rest = staging.take(3 * page_size);
  CHECK(rest);
  CHECK(staging.bytes_taken() == 4 * page_size);
}

TEST_CASE("staging memory beyond its limit is refused, without cost", "[memory]") {
  StagingMemory staging(4 * page_size);
  const auto first = staging.take(3 * page_size);
  REQUIRE(first);
  CHECK_FALSE(staging.take(page_size + 1));
  CHECK_FALSE(staging.take(5 * page_size));
  CHECK_FALSE(staging.take(~std::size_t{0}));
  CHECK(staging.bytes_taken() == 3 * page_size);
  CHECK(staging.take(page_size));
}

TEST_CASE("staged bytes may outlive the object that allocated them", "[memory]") {
  std::optional<StagingMemory> staging(std::in_place, page_size);
  const auto bytes = staging->take(page_size);
  REQUIRE(bytes);
  staging.reset();
  std::memset(bytes.get(), 1, page_size);
}

TEST_CASE("no staging memory is returned if Linux has none", "[memory]") {
  // As much as the whole address space of a process.
  StagingMemory staging(std::size_t{1} << 48);
  CHECK_FALSE(staging.take(std::size_t{1} << 47));
  CHECK(staging.bytes_taken() == 0);
}

}  // namespace wherry::test::staging_memory_test
