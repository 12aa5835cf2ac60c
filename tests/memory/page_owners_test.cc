#include "memory/page_owners.h"

#include "support/catch.h"

namespace wherry::test::page_owners_test {
namespace {

using namespace wherry::impl;

constexpr Processor host = Processor::host();
constexpr Processor device0 = Processor::device(0);
constexpr Processor device1 = Processor::device(1);
constexpr std::uint64_t arena_pages = 1024;

Allocation allocation(std::uint64_t first, std::uint64_t bytes, Ownership owner = {}) {
  return {first * page_size, bytes, 1, 0, owner};
}

TEST_CASE("pages have an owner while they are allocated", "[memory]") {
  PageOwners owners(arena_pages * page_size);
  const PageOwnersView view = owners.view();
  CHECK(view.count_accessible({{0}, arena_pages}, host) == 0);
  const Allocation memory = allocation(32, 3 * page_size - 1);
  owners.allocated(memory);
  for (const Processor p : {host, device0, device1}) {
    CHECK(view.count_accessible({{32}, 3}, p) == 3);
    CHECK(view.count_accessible({{33}, 10}, p) == 2);
    CHECK(view.count_accessible({{31}, 3}, p) == 0);
    CHECK(view.count_accessible({{35}, 1}, p) == 0);
  }
  owners.freed(memory);
  CHECK(view.count_accessible({{32}, 3}, host) == 0);
}

TEST_CASE("device memory is accessible to its device only", "[memory]") {
  PageOwners owners(arena_pages * page_size);
  owners.allocated(allocation(16, 2 * page_size, {device1}));
  CHECK(owners.view().count_accessible({{16}, 2}, device1) == 2);
  CHECK(owners.view().count_accessible({{16}, 2}, device0) == 0);
  CHECK(owners.view().count_accessible({{16}, 2}, host) == 0);
}

TEST_CASE("a processor with access may use the memory, until its access is removed", "[memory]") {
  PageOwners owners(arena_pages * page_size);
  constexpr unsigned pool = Audiences::first_other + 3;
  owners.audiences().begin(pool, device1.bit());
  owners.allocated(allocation(16, 2 * page_size, {device1}));
  owners.allocated(allocation(18, 2 * page_size, {device1, pool}));
  const PageOwnersView view = owners.view();
  CHECK(view.count_accessible({{16}, 4}, device1) == 4);
  owners.audiences().admit(Audiences::of_device(device1), device0.bit());
  CHECK(view.count_accessible({{16}, 4}, device0) == 2);
  owners.audiences().admit(pool, device0.bit());
  CHECK(view.count_accessible({{16}, 4}, device0) == 4);
  CHECK(view.count_accessible({{16}, 4}, host) == 0);
  owners.audiences().exclude(Audiences::of_device(device1), device0.bit());
  CHECK(view.count_accessible({{16}, 4}, device0) == 0);
  CHECK(view.count_accessible({{18}, 2}, device0) == 2);
  owners.audiences().begin(pool, device0.bit());
  CHECK(view.count_accessible({{18}, 2}, device1) == 0);
}

TEST_CASE("neighbouring allocations are distinguished", "[memory]") {
  PageOwners owners(arena_pages * page_size);
  owners.allocated(allocation(16, 16 * page_size));
  owners.allocated(allocation(32, 16 * page_size));
  const PageOwnersView view = owners.view();
  CHECK(view.count_accessible({{16}, 32}, host) == 32);
  CHECK(view.are_of_one_allocation({{16}, 16}));
  CHECK(view.are_of_one_allocation({{32}, 16}));
  CHECK(view.are_of_one_allocation({{20}, 1}));
  CHECK_FALSE(view.are_of_one_allocation({{16}, 17}));
  CHECK_FALSE(view.are_of_one_allocation({{31}, 2}));
}

}  // namespace
}  // namespace wherry::test::page_owners_test
