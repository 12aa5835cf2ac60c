#include "memory_activity.h"

#include "base/page.h"
#include "support/catch.h"

namespace wherry::tool::memory_activity_test {
namespace {

using impl::block_size;

constexpr std::uint64_t base = std::uint64_t{1} << 40;

NamedMemory named(std::uint64_t offset, std::uint64_t bytes, std::string name) {
  return {base + offset, bytes, offset, std::move(name)};
}

ProgramStatus program(std::vector<NamedMemory> names) {
  ProgramStatus status;
  status.arena_base = base;
  status.variables_from = 1000;
  status.names = std::move(names);
  return status;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("blocks are counted for the memory that is in them, the heaviest first") {
  const ProgramStatus status =
      program({named(0, 2 * block_size, "matrix"), named(5 * block_size, 100, "vector")});
  const auto rows = by_memory(status, {{0, 1, 10, 0}, {1, 2, 20, 3}, {5, 1, 1, 0}});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].names == Names{"matrix"});
  CHECK(rows[0].address == base);
  CHECK(rows[0].bytes == 2 * block_size);
  CHECK(rows[0].faults == 3);
  CHECK(rows[0].moved_bytes == 30 * impl::page_size);
  CHECK(rows[0].evicted_bytes == 3 * impl::page_size);
  CHECK(rows[1].names == Names{"vector"});
}

TEST_CASE("memory that shares a block is one row, since it is not known which was accessed") {
  const ProgramStatus status =
      program({named(0, 100, "x"), named(65536, 100, "y"), named(131072, block_size, "long")});
  const auto rows = by_memory(status, {{0, 5, 0, 0}, {1, 7, 0, 0}});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].names == Names{"long"});
  CHECK(rows[0].faults == 7);
  CHECK(rows[1].names == Names{"long", "x", "y"});
  CHECK(rows[1].faults == 5);
  CHECK(rows[1].address == base);
}

TEST_CASE("several allocations of one name are one row") {
  const ProgramStatus status =
      program({named(0, block_size, "vectors"), named(4 * block_size, block_size, "vectors")});
  const auto rows = by_memory(status, {{0, 1, 0, 0}, {4, 1, 0, 0}});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].bytes == 2 * block_size);
  CHECK(rows[0].faults == 2);
}

TEST_CASE("neighbouring blocks without a name are one row with their address") {
  const auto rows = by_memory(program({named(3 * block_size, 1, "x")}),
                              {{0, 1, 0, 0}, {1, 1, 0, 0}, {3, 9, 0, 0}, {4, 1, 0, 0}});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].names == Names{"x"});
  CHECK(rows[1].names.empty());
  CHECK(rows[1].address == base);
  CHECK(rows[1].bytes == 2 * block_size);
  CHECK(label_of(rows[1], 40) == "0x10000000000");
  CHECK(rows[2].address == base + 4 * block_size);
}

TEST_CASE("named memory is listed although nothing happened to it, wherever it is") {
  NamedMemory elsewhere = named(0, 8, "host memory");
  elsewhere.offset = impl::not_in_arena;
  const auto rows = by_memory(program({named(0, 100, "x"), elsewhere}), {});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].weight() == 0);
  CHECK(rows[0].bytes + rows[1].bytes == 108);
}

TEST_CASE("variables have no address in the arena") {
  const auto rows = by_memory(program({}), {{1001, 1, 0, 0}});
  REQUIRE(rows.size() == 1);
  CHECK(label_of(rows[0], 40) == "managed variables");
}

TEST_CASE("the difference has the blocks in which something happened") {
  const auto change = difference({{1, 5, 5, 5}, {2, 1, 1, 1}, {9, 1, 0, 0}},
                                 {{1, 5, 7, 5}, {2, 1, 1, 1}, {4, 3, 0, 0}, {9, 1, 0, 1}});
  REQUIRE(change.size() == 3);
  CHECK(change[0].block == 1);
  CHECK(change[0].arrived == 2);
  CHECK(change[0].faults == 0);
  CHECK(change[1].block == 4);
  CHECK(change[1].faults == 3);
  CHECK(change[2].evicted == 1);
}

TEST_CASE("a label fits into its column") {
  MemoryActivity memory;
  memory.names = {"alpha", "beta", "gamma", "delta"};
  CHECK(label_of(memory, 100) == "alpha, beta, gamma, delta");
  CHECK(label_of(memory, 24) == "alpha, beta and 2 more");
  CHECK(label_of(memory, 16) == "alpha and 3 more");
  CHECK(label_of(memory, 3) == "alp");
}

}  // namespace wherry::tool::memory_activity_test
