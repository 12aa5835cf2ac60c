#include "os/memory/own_memory.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>

#include "base/page.h"
#include "os/memory/mapping.h"
#include "support/catch.h"

namespace wherry::test::own_memory_test {

using namespace wherry::impl;

namespace {

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

void reads_locals_heap_and_nothing_else() {
  const std::array<int, 4> local{1, 2, 3, 4};
  const auto heap = std::make_unique<std::array<int, 4>>(std::array<int, 4>{5, 6, 7, 8});
  // The second page is not readable.
  const Mapping memory = Mapping::zeroed(2 * page_size);
  REQUIRE(::mprotect(memory.data() + page_size, page_size, PROT_NONE) == 0);
  std::memset(memory.data(), 9, page_size);

  std::array<std::array<std::byte, sizeof local>, 7> into;
  std::array<MemoryPart, 7> parts{{{address_of(&local), into[0]},
                                   {0, into[1]},
                                   {8, into[2]},
                                   {memory.address() + page_size, into[3]},
                                   {address_of(heap.get()), into[4]},
                                   {memory.address() + page_size - 6, into[5]},
                                   {~std::uintptr_t{7}, into[6]}}};
  read_readable(parts);
  CHECK(parts[0].read == sizeof local);
  CHECK(std::memcmp(into[0].data(), &local, sizeof local) == 0);
  for (const int unreadable : {1, 2, 3, 6}) CHECK(parts[unreadable].read == 0);
  CHECK(parts[4].read == sizeof local);
  CHECK(std::memcmp(into[4].data(), heap.get(), sizeof local) == 0);
  CHECK(parts[5].read == 6);
  CHECK(into[5][5] == std::byte{9});
}

}  // namespace

TEST_CASE("memory is read up to the first byte that is not readable", "[os]") {
  reads_locals_heap_and_nothing_else();
  std::thread(reads_locals_heap_and_nothing_else).join();
}

TEST_CASE("nothing is read behind the end of a thread's stack", "[os]") {
  std::thread([] {
    // The C library's own data of the thread lies between its frames and the end.
    std::array<std::byte, 64> into;
    const int local = 7;
    for (std::uintptr_t at = address_of(&local); at < address_of(&local) + (std::size_t{16} << 20);
         at += 61) {
      MemoryPart part{at, into};
      read_readable({&part, 1});
      REQUIRE(part.read <= into.size());
    }
  }).join();
}

}  // namespace wherry::test::own_memory_test
