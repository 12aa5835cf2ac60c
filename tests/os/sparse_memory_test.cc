#include "os/memory/sparse_memory.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "os/memory/address_map.h"
#include "support/catch.h"

namespace wherry::test::sparse_memory_test {

using namespace wherry::impl;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// How many bytes of [start, start + bytes) this process may write, by Linux's address map.
std::size_t writable_bytes(const std::byte* start, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  const std::string text = read_address_map();
  std::string_view map = text;
  std::size_t writable = 0;
  while (const auto mapping = next_mapping(map)) {
    const std::uintptr_t begin = std::max(mapping->range.start, first);
    const std::uintptr_t end = std::min(mapping->range.end, first + bytes);
    if (begin < end && mapping->writable) writable += end - begin;
  }
  return writable;
}

}  // namespace

TEST_CASE("bookkeeping memory is accessible only around the requested parts") {
  SparseMemory memory(512 * mib);
  CHECK(writable_bytes(memory.data(), memory.size()) == 0);
  REQUIRE(memory.commit(100 * mib + 5, 10) == 0);
  memory.data()[100 * mib + 5] = std::byte{1};
  const std::size_t around = writable_bytes(memory.data(), memory.size());
  CHECK(around > 0);
  CHECK(around <= 4 * mib);
  REQUIRE(memory.commit(100 * mib, 100) == 0);
  CHECK(writable_bytes(memory.data(), memory.size()) == around);
  CHECK(memory.data()[100 * mib + 5] == std::byte{1});
}

TEST_CASE("the last bytes of bookkeeping memory are usable, whatever its size") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{70'000}, 300 * mib + 4096}) {
    SparseMemory memory(bytes);
    REQUIRE(memory.commit(bytes - 1, 1) == 0);
    memory.data()[bytes - 1] = std::byte{1};
    REQUIRE(memory.commit(0, bytes) == 0);
    memory.data()[0] = std::byte{1};
  }
}

}  // namespace wherry::test::sparse_memory_test
