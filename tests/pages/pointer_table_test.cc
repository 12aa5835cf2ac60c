#include "pages/pointer_table.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "base/page.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::pointer_table_test {

using namespace wherry::impl;

namespace {

constexpr std::uintptr_t somewhere = 0x7f12'3400'0000;
constexpr std::size_t arena_bytes = std::size_t{1} << 40;

}  // namespace

TEST_CASE("a range of any size is found from its first byte to its last") {
  PointerTable table(arena_bytes);
  const std::size_t bytes = GENERATE(as<std::size_t>(), 1, 4095, 4096, 65537, block_size - 1,
                                     block_size, 3 * block_size + 5000, std::size_t{40} << 30);
  const std::uintptr_t start =
      somewhere + GENERATE(as<std::uintptr_t>(), 0, page_size, 3 * 65536 + page_size);
  table.insert(start, bytes, {7, 200});
  CHECK_FALSE(table.find(start - 1));
  CHECK(table.find(start) == PointerTable::Entry{7, 200});
  CHECK(table.find(start + bytes / 2) == PointerTable::Entry{7, 200});
  CHECK(table.find(start + bytes - 1) == PointerTable::Entry{7, 200});
  CHECK_FALSE(table.find(start + bytes));
  table.erase(start, bytes);
  CHECK_FALSE(table.find(start));
  CHECK_FALSE(table.find(start + bytes - 1));
}

TEST_CASE("any number can be looked up") {
  PointerTable table(arena_bytes);
  table.insert(page_size, 1, {1, 0});
  CHECK(table.find(page_size));
  for (const std::uintptr_t address :
       {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{1} << 47, ~std::uintptr_t{0}})
    CHECK_FALSE(table.find(address));
}

TEST_CASE("a range is found from any stretch that shares a page with it, however long") {
  PointerTable table(arena_bytes);
  const std::uintptr_t last = std::uintptr_t{1} << 47;
  CHECK_FALSE(table.finds_any(0, ~std::uintptr_t{0}));
  const std::size_t bytes = GENERATE(as<std::size_t>(), 1, page_size, 65536, 3 * block_size);
  const std::uintptr_t start = somewhere + GENERATE(as<std::uintptr_t>(), 0, 5 * page_size);
  const std::uintptr_t end = round_up(start + bytes, page_size);
  table.insert(start, bytes, {7, 200});
  CHECK(table.finds_any(0, ~std::uintptr_t{0}));
  CHECK(table.finds_any(0, start + 1));
  CHECK(table.finds_any(start + bytes - 1, last));
  CHECK(table.finds_any(start, start + 1));
  CHECK_FALSE(table.finds_any(0, start));
  CHECK_FALSE(table.finds_any(end, last));
  CHECK_FALSE(table.finds_any(start, start));
  table.erase(start, bytes);
  CHECK_FALSE(table.finds_any(0, last));
}

TEST_CASE("adjacent ranges that are inserted and removed are found as in a map") {
  PointerTable table(arena_bytes);
  std::map<std::uintptr_t, std::pair<std::size_t, PointerTable::Entry>> model;
  std::mt19937_64 random(wherry::test::seed());
  const std::uintptr_t end = somewhere + 8 * block_size;
  const auto in_model = [&](std::uintptr_t address) -> std::optional<PointerTable::Entry> {
    auto after = model.upper_bound(address);
    if (after == model.begin()) return std::nullopt;
    const auto& [start, range] = *--after;
    if (address - start >= range.first) return std::nullopt;
    return range.second;
  };
  for (std::uint32_t step = 0; step < wherry::test::scaled(20'000); ++step) {
    const std::size_t unit = std::size_t{1} << std::array{12, 16, 21}[random() % 3];
    const std::uintptr_t start = round_down(somewhere + random() % (end - somewhere), unit);
    const std::size_t bytes = 1 + random() % (4 * unit);
    const auto next = model.lower_bound(start);
    const bool free = (next == model.end() || next->first >= start + bytes) && !in_model(start);
    if (free &&
        (next == model.begin() ||
         round_up(std::prev(next)->first + std::prev(next)->second.first, page_size) <= start)) {
      const PointerTable::Entry entry{step % PointerTable::index_end,
                                      static_cast<std::uint8_t>(random())};
      table.insert(start, bytes, entry);
      model[start] = {bytes, entry};
    } else if (next != model.end()) {
      table.erase(next->first, next->second.first);
      model.erase(next);
    }
    for (int look = 0; look < 4; ++look) {
      const std::uintptr_t address =
          somewhere - page_size + random() % (end - somewhere + block_size);
      INFO("step " << step << " address " << std::hex << address);
      REQUIRE(table.find(address) == in_model(address));
    }
  }
}

TEST_CASE("a concurrent reader finds the ranges that stay") {
  PointerTable table(arena_bytes);
  table.insert(somewhere, 65536, {1, 1});
  table.insert(somewhere + block_size, block_size, {2, 2});
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      if (table.find(somewhere + 5) != PointerTable::Entry{1, 1}) ++wrong;
      if (table.find(somewhere + block_size + 77777) != PointerTable::Entry{2, 2}) ++wrong;
      const auto flickering = table.find(somewhere + 65536 + page_size);
      if (flickering && *flickering != PointerTable::Entry{3, 3}) ++wrong;
    }
  });
  for (std::uint64_t round = 0; round < wherry::test::scaled(20'000); ++round) {
    const std::size_t bytes = (1 + round % 16) * page_size;
    table.insert(somewhere + 65536 + page_size, bytes, {3, 3});
    table.erase(somewhere + 65536 + page_size, bytes);
  }
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

}  // namespace wherry::test::pointer_table_test
