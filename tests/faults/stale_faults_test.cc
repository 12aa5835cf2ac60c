// Which faults are of accesses to freed memory, also if there is no space for a note about each
// faulting thread.
#include "faults/stale_faults.h"

#include <new>
#include <vector>

#include "support/catch.h"

namespace wherry::test::stale_faults_test {
namespace {

using namespace wherry::impl;

std::uint64_t time_ns = 1;

// Gives memory once: for the first table.
class ShortMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (used_) throw std::bad_alloc();
    used_ = true;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  bool used_ = false;
};

struct Setup {
  Audiences audiences;
  AddressSpace address_space{64 * block_size};

  // A fault whose message may have been read before the memory was freed.
  static Fault fault(std::uint32_t thread, std::uint64_t page) {
    return {Processor::host(), Processor::host(), {page * page_size, thread}, {page}, [] {
              return time_ns;
            }};
  }
};

}  // namespace

TEST_CASE("without memory for more notes every thread gets its turn") {
  Setup s;
  ShortMemory memory;
  StaleFaults faults(
      s.audiences, s.address_space, [] { return time_ns; }, memory);
  constexpr std::uint32_t threads = 5'000;
  std::vector<bool> ended(threads, false);
  std::size_t left = threads;
  int rounds = 0;
  for (; left != 0 && rounds < 100; ++rounds) {
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      time_ns += 1'000;
      if (ended[thread] || !faults.is_of_freed(Setup::fault(thread + 1, thread))) continue;
      ended[thread] = true;
      --left;
    }
  }
  CHECK(left == 0);
  // In each round as many threads are noted as there are places for notes.
  CHECK(rounds < 20);
}

TEST_CASE("notes of threads that do not come back make room for others, and not before") {
  Setup s;
  ShortMemory memory;
  StaleFaults faults(
      s.audiences, s.address_space, [] { return time_ns; }, memory);
  std::uint32_t thread = 1;
  for (; thread < StaleFaults::places_first; ++thread)
    CHECK_FALSE(faults.is_of_freed(Setup::fault(thread, thread)));
  // The first thread has a note; for the last one there was no place.
  CHECK(faults.is_of_freed(Setup::fault(1, 1)));
  CHECK_FALSE(faults.is_of_freed(Setup::fault(thread - 1, thread - 1)));
  const std::uint32_t newcomer = thread + 1000;
  time_ns += 20'000'000'000;
  for (std::uint32_t other = 0; other < 500; ++other)
    CHECK_FALSE(faults.is_of_freed(Setup::fault(newcomer + other, 7)));
  for (std::uint32_t other = 0; other < 500; ++other)
    CHECK(faults.is_of_freed(Setup::fault(newcomer + other, 7)));
}

TEST_CASE("a thread that accesses another page has ended its access before") {
  Setup s;
  StaleFaults faults(s.audiences, s.address_space, [] { return time_ns; });
  CHECK_FALSE(faults.is_of_freed(Setup::fault(1, 3)));
  CHECK_FALSE(faults.is_of_freed(Setup::fault(1, 4)));
  CHECK_FALSE(faults.is_of_freed(Setup::fault(1, 3)));
  CHECK(faults.is_of_freed(Setup::fault(1, 3)));
}

TEST_CASE("frees elsewhere do not keep a thread from its signal") {
  Setup s;
  StaleFaults faults(s.audiences, s.address_space, [] { return time_ns; });
  const auto dead = s.address_space.allocate(block_size, 0).value();
  REQUIRE(s.address_space.begin_free(dead.offset));
  const std::uint64_t page = dead.pages().first.value;
  const auto other = s.address_space.allocate(block_size, 0).value();
  const auto small = s.address_space.allocate(page_size, 0).value();
  CHECK_FALSE(faults.is_of_freed(Setup::fault(1, page)));
  REQUIRE(s.address_space.begin_free(other.offset));
  REQUIRE(s.address_space.begin_free(small.offset));
  CHECK(faults.is_of_freed(Setup::fault(1, page)));
}

TEST_CASE("a free of the same memory makes a message as uncertain as the first one") {
  Setup s;
  StaleFaults faults(s.audiences, s.address_space, [] { return time_ns; });
  for (const std::uint64_t bytes : {std::uint64_t{page_size}, std::uint64_t{3 * block_size}}) {
    std::uint64_t page = 0;
    for (int round = 0; round < 3; ++round) {
      const auto memory = s.address_space.allocate(bytes, 0).value();
      page = memory.pages().end().value - 1;
      REQUIRE(s.address_space.begin_free(memory.offset));
      s.address_space.end_free(memory);
      CHECK_FALSE(faults.is_of_freed(Setup::fault(1, page)));
    }
    CHECK(faults.is_of_freed(Setup::fault(1, page)));
  }
}

TEST_CASE("many notes come and go, and each thread has its own") {
  Setup s;
  StaleFaults faults(s.audiences, s.address_space, [] { return time_ns; });
  // More threads than the first table has places for notes, with consecutive numbers.
  constexpr std::uint32_t threads = 10'000;
  for (std::uint32_t thread = 1; thread <= threads; ++thread)
    CHECK_FALSE(faults.is_of_freed(Setup::fault(thread, thread)));
  for (std::uint32_t thread = 1; thread <= threads; thread += 2)
    CHECK(faults.is_of_freed(Setup::fault(thread, thread)));
  for (std::uint32_t thread = 1; thread <= threads; ++thread)
    CHECK(faults.is_of_freed(Setup::fault(thread, thread)) == (thread % 2 == 0));
}

}  // namespace wherry::test::stale_faults_test
