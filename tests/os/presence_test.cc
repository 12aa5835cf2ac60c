// Checked against what Linux says of the pages of private memory.
#include "os/memory/presence.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/page.h"
#include "support/catch.h"

namespace wherry::test::presence_test {

using namespace wherry::impl;

namespace {

constexpr std::size_t pages = 8;

struct Memory {
  void* address =
      ::mmap(nullptr, pages* page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Memory() { REQUIRE(address != MAP_FAILED); }
  ~Memory() { ::munmap(address, pages * page_size); }

  AddressRange part(std::size_t first, std::size_t count) const {
    const auto start = reinterpret_cast<std::uintptr_t>(address) + first * page_size;
    return {start, start + count * page_size};
  }
  char& operator[](std::size_t page) const { return static_cast<char*>(address)[page * page_size]; }
};

}  // namespace

TEST_CASE("absent pages are found in runs, and the search creates none") {
  const Memory memory;
  CHECK(absent_pages(memory.part(0, pages)) == std::vector{memory.part(0, pages)});
  memory[3] = 1;
  CHECK(absent_pages(memory.part(0, pages)) ==
        std::vector{memory.part(0, 3), memory.part(4, pages - 4)});
  CHECK(absent_pages(memory.part(3, 1)).empty());
}

TEST_CASE("created pages are zeros, and pages that exist keep their contents") {
  const Memory memory;
  memory[3] = 1;
  CHECK(create_pages(memory.part(2, 3)) == 0);
  CHECK(absent_pages(memory.part(0, pages)) ==
        std::vector{memory.part(0, 2), memory.part(5, pages - 5)});
  CHECK(memory[2] == 0);
  CHECK(memory[3] == 1);
}

TEST_CASE("pages that may not be written or do not exist are not created") {
  const Memory memory;
  REQUIRE(::mprotect(memory.address, page_size, PROT_READ) == 0);
  CHECK(create_pages(memory.part(0, 1)) != 0);
  REQUIRE(::munmap(&memory[7], page_size) == 0);
  CHECK(create_pages(memory.part(7, 1)) != 0);
  CHECK(absent_pages(memory.part(6, 2)).empty());
}

}  // namespace wherry::test::presence_test
