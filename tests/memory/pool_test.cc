#include "memory/pool.h"

#include <catch2/catch.hpp>

#include <vector>

#include "os/process/permissions.h"
#include "support/descriptors.h"

using namespace wherry::impl;
using wherry::test::allocated_bytes;

TEST_CASE("a pool's file is filled where it has no pages, and only there") {
  MemoryPoolFile pool("pool-test", 4 * block_size, HugePages::if_possible,
                      permissions().userfaultfd());
  std::vector<std::byte> data(2 * page_size, std::byte{7});
  REQUIRE(pool.fill({5, 2}, data.data()));
  CHECK(*pool.alias(5) == std::byte{7});
  CHECK(allocated_bytes(pool.file().fd()) == 2 * page_size);
  CHECK(pool.fill({6, 1}, data.data()).status == OpStatus::occupied);
  REQUIRE(pool.fill_zero({7, 1}));
  CHECK(*pool.alias(7) == std::byte{0});
  REQUIRE(pool.punch({5, 1}) == 0);
  REQUIRE(pool.fill_zero({5, 1}));
  CHECK(*pool.alias(5) == std::byte{0});
  CHECK(allocated_bytes(pool.file().fd()) == 3 * page_size);
}
