#include "pages/address_space.h"

#include "support/catch.h"

#include <map>
#include <random>
#include <set>

namespace wherry::test::address_space_test {

using namespace wherry::impl;

TEST_CASE("small allocations share a 2 MiB chunk on 64 KiB boundaries, large ones start on 2 MiB") {
  AddressSpace space(64 * block_size);
  const auto a = space.allocate(1, 0);
  const auto b = space.allocate(65537, 0);
  const auto c = space.allocate(block_size + 1, 0);
  const auto d = space.allocate(4096, 0);
  REQUIRE((a && b && c && d));
  CHECK(a->offset == 0);
  CHECK(b->offset == 65536);
  CHECK(c->offset % block_size == 0);
  CHECK(d->offset == 65536 * 3);
}

TEST_CASE("a live allocation is found by every byte of its pages, and by no other") {
  AddressSpace space(64 * block_size);
  const auto a = space.allocate(5000, 7);
  REQUIRE(a);
  CHECK(space.find(a->offset)->id == a->id);
  CHECK(space.find(a->offset + 8191)->flags == 7);
  CHECK_FALSE(space.find(a->offset + 8192));
  REQUIRE(space.begin_free(a->offset));
  CHECK_FALSE(space.find(a->offset));
  CHECK_FALSE(space.begin_free(a->offset));
}

TEST_CASE("an address that is being freed is not handed out before its pages are gone") {
  AddressSpace space(block_size);
  const auto a = space.allocate(block_size, 0);
  REQUIRE(a);
  const auto leaving = space.begin_free(a->offset);
  CHECK_FALSE(space.allocate(4096, 0));
  space.end_free(*leaving);
  const auto again = space.allocate(block_size, 0);
  REQUIRE(again);
  CHECK(again->offset == a->offset);
  CHECK(again->id != a->id);
}

TEST_CASE("an allocation counts its users, and cannot be used any more once it is freed") {
  AddressSpace space(2 * block_size);
  const auto a = space.allocate(block_size, 0);
  REQUIRE(a);
  CHECK_FALSE(space.begin_use(a->offset, a->id + 1));
  CHECK_FALSE(space.begin_use(block_size, a->id));
  REQUIRE(space.begin_use(a->offset + 5000, a->id));
  REQUIRE(space.begin_use(a->offset, a->id));
  REQUIRE(space.begin_free(a->offset));
  CHECK_FALSE(space.begin_use(a->offset, a->id));
  space.end_use(a->id);
  CHECK(space.is_in_use(*a));
  space.end_use(a->id);
  CHECK_FALSE(space.is_in_use(*a));
  space.end_free(*a);
  const auto again = space.allocate(block_size, 0);
  REQUIRE(again);
  CHECK_FALSE(space.begin_use(again->offset, a->id));
}

TEST_CASE("a retired page of a live allocation is excluded when the allocation ends") {
  AddressSpace space(2 * block_size);
  const auto a = space.allocate(2 * block_size, 0);
  REQUIRE(a);
  CHECK_FALSE(space.retire_if_dead({5}));
  space.retire({5});
  space.end_free(space.begin_free(a->offset).value());
  CHECK_FALSE(space.allocate(2 * block_size, 0));
  const auto b = space.allocate(block_size, 0);
  REQUIRE(b);
  CHECK(b->offset == block_size);
  CHECK_FALSE(space.allocate(1, 0));
}

TEST_CASE("what is retired around a page is free memory, and never allocated again") {
  AddressSpace space(3 * block_size);
  const auto large = space.allocate(block_size, 0).value();
  const auto small = space.allocate(page_size, 0).value();
  const auto neighbour = space.allocate(page_size, 0).value();
  space.end_free(space.begin_free(large.offset).value());
  const PageSpan all_of_block = block_span(block_of(large.pages().first));
  CHECK(space.retire_if_dead(large.pages().first + 7) == all_of_block);
  // The call may be repeated, because another processor may fault in the block later.
  CHECK(space.retire_if_dead(large.pages().first + 300) == all_of_block);
  const auto leaving = space.begin_free(small.offset).value();
  CHECK(space.retire_if_dead(small.pages().first) == small.pages());
  space.end_free(leaving);
  CHECK(space.retire_if_dead(small.pages().first) == PageSpan{small.pages().first, 16});
  CHECK_FALSE(space.retire_if_dead(neighbour.pages().first));
  std::set<std::uint64_t> found;
  while (const auto next = space.allocate(page_size, 0)) found.insert(next->offset);
  CHECK_FALSE(found.contains(small.offset));
  CHECK_FALSE(found.contains(large.offset));
  CHECK(found.size() == 2 * block_size / 65536 - 2);
}

TEST_CASE("a page was dead since a moment if nothing there was freed since") {
  AddressSpace space(8 * block_size);
  const std::uint64_t start = space.frees();
  CHECK(space.was_dead({3}, start));
  const auto small = space.allocate(page_size, 0).value();
  const auto large = space.allocate(2 * block_size, 0).value();
  space.end_free(space.begin_free(small.offset).value());
  const std::uint64_t between = space.frees();
  space.end_free(space.begin_free(large.offset).value());
  CHECK_FALSE(space.was_dead(small.pages().first, start));
  CHECK(space.was_dead(small.pages().first, between));
  CHECK_FALSE(space.was_dead(large.pages().end() - 1, between));
  CHECK(space.was_dead(large.pages().end() - 1, space.frees()));
  // Pages outside the arena are never dead: variables that are not registered yet may be there.
  CHECK_FALSE(space.was_dead(page_at_offset(8 * block_size), space.frees()));
}

TEST_CASE("the addresses of a withdrawn allocation have no forbidden neighbours") {
  AddressSpace space(2 * block_size);
  const auto memory = space.allocate(block_size, 0).value();
  const PageIndex page = memory.pages().first + 9;
  REQUIRE(space.begin_withdrawal(memory.offset));
  space.end_withdrawal(memory);
  // The addresses now belong to memory of the program that is not managed.
  CHECK_FALSE(space.was_dead(page, space.frees()));
  CHECK(space.retire_if_dead(page) == PageSpan{page, 1});
}

TEST_CASE("impossible sizes are refused") {
  AddressSpace space(64 * block_size);
  CHECK_FALSE(space.allocate(0, 0));
  CHECK_FALSE(space.allocate(std::uint64_t{1} << 60, 0));
  CHECK_FALSE(space.allocate(~std::uint64_t{0}, 0));
  CHECK_FALSE(space.allocate(65 * block_size, 0));
}

TEST_CASE("random allocations never overlap, and all free ranges merge back into one") {
  const unsigned seed = 4242;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  AddressSpace space(32 * block_size);
  std::map<std::uint64_t, Allocation> model;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 || model.empty()) {
      const std::uint64_t bytes =
          1 + (random() % 8 == 0 ? random() % (5 * block_size) : random() % (3 * 65536));
      const auto made = space.allocate(bytes, 0);
      if (!made) continue;
      const auto next = model.lower_bound(made->offset);
      if (next != model.end()) REQUIRE(made->offset + made->bytes <= next->first);
      if (next != model.begin()) {
        const Allocation& before = std::prev(next)->second;
        REQUIRE(before.offset + before.bytes <= made->offset);
      }
      model.emplace(made->offset, *made);
    } else {
      auto victim = model.begin();
      std::advance(victim, static_cast<long>(random() % model.size()));
      space.end_free(space.begin_free(victim->first).value());
      model.erase(victim);
    }
  }
  for (const auto& [offset, allocation] : model) space.end_free(space.begin_free(offset).value());
  CHECK(space.allocate(32 * block_size, 0));
}

TEST_CASE("a range is allocated exactly at the requested address if it is free") {
  AddressSpace space(8 * block_size);
  const auto there = space.allocate_at(3 * block_size, 2 * block_size);
  REQUIRE(there);
  CHECK(there->offset == 3 * block_size);
  CHECK_FALSE(space.allocate_at(4 * block_size, block_size));
  CHECK_FALSE(space.allocate_at(2 * block_size, 2 * block_size));
  CHECK_FALSE(space.allocate_at(7 * block_size, 2 * block_size));
  CHECK(space.allocate_at(5 * block_size, 3 * block_size));
  CHECK(space.allocate(3 * block_size, 0)->offset == 0);
  REQUIRE(space.begin_free(there->offset));
  CHECK_FALSE(space.allocate_at(3 * block_size, 2 * block_size));
  space.end_free(*there);
  CHECK(space.allocate_at(3 * block_size, 2 * block_size));
}

TEST_CASE("a range begins at a multiple of the alignment if such a place is free") {
  AddressSpace space(16 * block_size);
  // Offset 0 is one step past an aligned address.
  constexpr std::uint64_t base = 9 * block_size;
  const auto align = [&](std::uint64_t steps, std::uint64_t alignment) {
    return space.allocate_aligned(steps * block_size, alignment, base);
  };
  CHECK_FALSE(align(10, 8 * block_size));
  CHECK_FALSE(align(1, std::uint64_t{1} << 63));
  const auto first = align(2, 8 * block_size);
  REQUIRE(first);
  CHECK(first->offset == 7 * block_size);
  CHECK_FALSE(align(2, 8 * block_size));
  const auto second = align(1, 8 * block_size);
  REQUIRE(second);
  CHECK(second->offset == 15 * block_size);
  // The ranges before and between are still free.
  CHECK(space.allocate(7 * block_size, 0)->offset == 0);
  CHECK(space.allocate(6 * block_size, 0)->offset == 9 * block_size);
}

TEST_CASE("in a striped arena an allocation begins at an offset of at least its size") {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  AddressSpace space(1024 * gib, 896 * gib);
  for (const std::uint64_t bytes : {gib, 100 * gib, 64 * block_size, block_size}) {
    const auto allocation = space.allocate(bytes, 0);
    REQUIRE(allocation);
    CAPTURE(bytes, allocation->offset);
    CHECK(allocation->offset >= bytes);
  }
}

TEST_CASE("a device's own memory is placed after the striped part, and nowhere else") {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  AddressSpace space(16 * gib, 12 * gib);
  const Ownership device{Processor::device(0), 0};
  const auto large = space.allocate(3 * gib, 0, device);
  REQUIRE(large);
  CHECK(large->offset == 12 * gib);
  const auto small = space.allocate(4096, 0, device);
  REQUIRE(small);
  CHECK(small->offset == 15 * gib);
  CHECK_FALSE(space.allocate(gib, 0, device));

  // Managed memory uses all of it.
  CHECK(space.allocate(12 * gib, 0));
  CHECK(space.allocate(gib - block_size, 0));
  CHECK_FALSE(space.allocate(block_size, 0));

  REQUIRE(space.begin_free(large->offset));
  space.end_free(*large);
  CHECK(space.allocate(3 * gib, 0, device)->offset == 12 * gib);
}

TEST_CASE(
    "managed memory stays in the striped part while there is space, also beside device memory") {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  AddressSpace space(16 * gib, 12 * gib);
  const Ownership device{Processor::device(0), 0};
  REQUIRE(space.allocate(block_size, 0, device));
  std::uint64_t left = 12 * gib;
  for (; left >= 2 * gib; left -= gib) {
    const auto allocation = space.allocate(gib, 0);
    REQUIRE(allocation);
    CHECK(allocation->offset < 12 * gib);
  }
  CHECK(space.allocate(4096, 0)->offset < 12 * gib);
  CHECK(space.allocate(gib, 0, device));
}

}  // namespace wherry::test::address_space_test
