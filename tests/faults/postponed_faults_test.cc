// Postponed faults, and what happens if there is no memory to store them.
#include "faults/postponed_faults.h"

#include <memory_resource>
#include <new>
#include <vector>

#include "support/catch.h"

namespace wherry::test::postponed_faults_test {

using namespace wherry::impl;

namespace {

// Provides memory for one allocation only.
class OnePiece final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (given_) throw std::bad_alloc();
    given_ = true;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* start, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(start, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  bool given_ = false;
};

bool put(PostponedFaults& postponed, std::uint64_t due, PageIndex page) {
  Fault fault({}, {}, {}, page, now_ns);
  return postponed.put(due, fault);
}

}  // namespace

TEST_CASE("the fault with the earliest due time comes first", "[faults]") {
  PostponedFaults postponed;
  for (const std::uint64_t due : {5, 3, 9, 1, 7, 3}) CHECK(put(postponed, due, {due}));
  CHECK_FALSE(postponed.take_due(0));
  std::vector<std::uint64_t> order;
  while (const auto fault = postponed.take_due(7)) order.push_back(fault->page.value);
  CHECK(order == std::vector<std::uint64_t>{1, 3, 3, 5, 7});
  CHECK(postponed.next_due() == 9);
}

TEST_CASE("a fault for which there is no memory is not postponed, and the others stay",
          "[faults]") {
  OnePiece memory;
  PostponedFaults postponed(memory);
  std::uint64_t kept = 0;
  while (kept < 100'000 && put(postponed, kept, {kept})) ++kept;
  REQUIRE(kept < 100'000);
  CHECK(kept >= 256);
  CHECK_FALSE(put(postponed, 0, {0}));
  for (std::uint64_t i = 0; i < kept; ++i) CHECK(postponed.take_due(kept)->page.value == i);
  CHECK_FALSE(postponed.next_due());
}

}  // namespace wherry::test::postponed_faults_test
