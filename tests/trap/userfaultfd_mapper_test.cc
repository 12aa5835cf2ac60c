// Linux's answers to each operation of a mapper, on a small arena of this process.
#include "trap/userfaultfd_mapper.h"

#include <csetjmp>
#include <csignal>

#include "memory/arena.h"
#include "memory/pool.h"
#include "os/files/file_io.h"
#include "os/process/permissions.h"
#include "support/catch.h"
#include "support/descriptors.h"
#include "support/kernel_view.h"

namespace wherry::test::userfaultfd_mapper_test {

using namespace wherry::impl;

namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;

struct Setup {
  const UffdAccess access = *permissions().userfaultfd();
  SparsePoolFile pool{"mapper-test", arena_bytes, HugePages::if_possible, access};
  SparsePoolFile other{"mapper-test-other", arena_bytes, HugePages::if_possible, access};
  Arena arena{arena_bytes, pool};
  std::shared_ptr<const Userfaultfd> uffd =
      std::make_shared<const Userfaultfd>(Userfaultfd::create(access));
  UserfaultfdMapper mapper{arena.layout(), [](std::uintptr_t address, std::size_t bytes) {
                             return set_access(address, bytes, Access::none);
                           }};

  Setup() {
    REQUIRE(set_access(arena.layout().base(), arena_bytes, Access::write) == 0);
    REQUIRE(uffd->register_range(arena.layout().base(), arena.layout().bytes()) == 0);
    mapper.attach(uffd);
  }
  volatile std::uint64_t* word(PageIndex page) const {
    return reinterpret_cast<volatile std::uint64_t*>(arena.layout().address_of(page));
  }
  std::uint64_t pages_held() {
    return wherry::test::allocated_bytes(pool.file().fd_at(0)) / page_size;
  }
};

// Whether the word can be read; false: the access raises a signal.
bool reads(const volatile std::uint64_t* word) {
  static sigjmp_buf back;
  struct sigaction action {};
  struct sigaction before_bus {};
  struct sigaction before_segv {};
  action.sa_handler = [](int) { siglongjmp(back, 1); };
  sigaction(SIGBUS, &action, &before_bus);
  sigaction(SIGSEGV, &action, &before_segv);
  volatile bool is_read = false;
  if (sigsetjmp(back, 1) == 0) {
    (void)*word;
    is_read = true;
  }
  sigaction(SIGBUS, &before_bus, nullptr);
  sigaction(SIGSEGV, &before_segv, nullptr);
  return is_read;
}

}  // namespace

TEST_CASE("zero pages appear in the pool, writable without a fault, and only once") {
  Setup s;
  CHECK(s.mapper.zero({{0}, 16}));
  CHECK(s.pages_held() == 16);
  CHECK(*s.word({15}) == 0);
  *s.word({15}) = 5;
  CHECK_FALSE(s.uffd->read_message());
  const OpResult again = s.mapper.zero({{15}, 2});
  CHECK(again.status == OpStatus::occupied);
  CHECK(again.bytes == 0);
  // A call that meets an existing page reports its progress; the next call reports the page.
  REQUIRE(s.mapper.zero({{32}, 1}));
  const OpResult partly = s.mapper.zero({{30}, 4});
  CHECK(partly.status == OpStatus::incomplete);
  CHECK(partly.bytes == 2 * page_size);
  CHECK(s.mapper.zero({{32}, 2}).status == OpStatus::occupied);
}

TEST_CASE("a copy that finds an existing page reports how far it got") {
  Setup s;
  std::vector<std::byte> source(8 * page_size, std::byte{7});
  REQUIRE(s.mapper.zero({{3}, 1}));
  const OpResult partly = s.mapper.copy_protected({{0}, 8}, source.data());
  CHECK(partly.status == OpStatus::incomplete);
  CHECK(partly.bytes == 3 * page_size);
  const OpResult stuck = s.mapper.copy_protected({{3}, 5}, source.data());
  CHECK(stuck.status == OpStatus::occupied);
  CHECK(stuck.bytes == 0);
}

TEST_CASE("a punched page leaves the pool and the page table, and can be filled again") {
  Setup s;
  REQUIRE(s.mapper.zero({{0}, 2}));
  *s.word({0}) = 9;
  REQUIRE(s.pool.punch({{0}, 1}) == 0);
  CHECK(s.pages_held() == 1);
  std::vector<std::byte> source(page_size, std::byte{3});
  CHECK(s.mapper.copy_protected({{0}, 1}, source.data()));
  CHECK(*s.word({0}) == 0x0303030303030303);
  CHECK(s.mapper.write_unprotect({{0}, 1}));
  *s.word({0}) = 1;
  CHECK(s.pages_held() == 2);
}

TEST_CASE(
    "pages in the pool without an entry are mapped; absent and mapped ones are distinguished") {
  Setup s;
  const std::vector<std::byte> source(page_size, std::byte{'x'});
  REQUIRE(s.pool.fill({{4}, 1}, source.data()));
  CHECK(s.mapper.map_resident({{4}, 1}, false));
  CHECK((*s.word({4}) & 0xff) == 'x');
  CHECK(s.mapper.map_resident({{4}, 1}, false).status == OpStatus::occupied);
  CHECK(s.mapper.map_resident({{5}, 1}, false).status == OpStatus::absent);
}

TEST_CASE("a whole block is mapped by one entry, and is trapped afterwards as before") {
  Setup s;
  if (!s.pool.maps_huge_pages()) {
    WARN("pools have no huge pages on this machine");
    return;
  }
  constexpr PageSpan block{{2 * pages_per_block}, pages_per_block};
  const std::vector<std::byte> source(block_size, std::byte{'x'});
  REQUIRE(write_at(s.pool.file().fd_at(0), block.offset(), source) == int{block_size});
  // An old page table may prevent a single entry, if Linux cannot free it. It prevents nothing
  // else.
  if (GENERATE(false, true)) {
    REQUIRE(s.mapper.map_resident(block, false));
    REQUIRE(s.pool.punch(block) == 0);
    REQUIRE(write_at(s.pool.file().fd_at(0), block.offset(), source) == int{block_size});
    const OpStatus status = s.mapper.map_whole(block).status;
    // Linux 6.11 to 6.13 fills the old page table with the block's 512 small entries instead.
    if (status == OpStatus::incomplete || status == OpStatus::occupied) {
      CHECK(s.mapper.map_resident(block, false).status == OpStatus::occupied);
      CHECK((*s.word(block.first + 9) & 0xff) == 'x');
      return;
    }
    REQUIRE(status == OpStatus::ok);
  } else {
    REQUIRE(s.mapper.map_whole(block));
  }
  CHECK(wherry::test::huge_entries(::getpid(), const_cast<std::uint64_t*>(s.word(block.first))) ==
        block_size);
  *s.word(block.first + 7) = 1;
  CHECK(s.mapper.map_resident({block.first + 9, 1}, false).status == OpStatus::occupied);
  // Protecting a part: Linux removes the huge entry, and the rest can be mapped again.
  CHECK(s.mapper.write_protect({block.first + 4, 1}));
  CHECK(s.mapper.map_resident({block.first + 9, 100}, false));
  CHECK((*s.word(block.first + 9) & 0xff) == 'x');
  CHECK(s.pages_held() == pages_per_block);
  CHECK_FALSE(s.uffd->read_message());
}

TEST_CASE(
    "a block without a huge page is mapped neither as one nor page by page, and stays trapped") {
  Setup s;
  constexpr PageSpan block{{0}, pages_per_block};
  const std::vector<std::byte> source(block_size, std::byte{'x'});
  for (std::uint64_t page = 0; page < block.count; ++page)
    REQUIRE(s.pool.fill({{page}, 1}, source.data()));
  const OpResult result = s.mapper.map_whole(block);
  CHECK((result.status == OpStatus::ok || result.status == OpStatus::incomplete));
  CHECK(s.mapper.write_protect({{1}, 1}));  // succeeds only if it is trapped
  CHECK(s.pages_held() == pages_per_block);
}

TEST_CASE("without a process every call reports that, and changes nothing") {
  Setup s;
  s.mapper.detach();
  std::vector<std::byte> source(page_size);
  CHECK(s.mapper.zero({{0}, 1}).status == OpStatus::process_gone);
  CHECK(s.mapper.copy_protected({{0}, 1}, source.data()).status == OpStatus::process_gone);
  CHECK(s.mapper.write_protect({{0}, 1}).status == OpStatus::process_gone);
  CHECK(s.mapper.map_whole({{0}, pages_per_block}).status == OpStatus::process_gone);
  CHECK(s.mapper.wake({{0}, 1}).status == OpStatus::process_gone);
  CHECK(s.pages_held() == 0);
}

TEST_CASE("an access to a forbidden page ends the process, and never sees a zero page") {
  Setup s;
  const PageSpan block{{0}, pages_per_block};
  if (GENERATE(false, true)) {
    // Pages existed, were protected, and have left, as after a move.
    REQUIRE(s.mapper.zero({{6}, 2}));
    REQUIRE(s.mapper.write_protect({{6}, 2}));
    REQUIRE(s.pool.punch({{6}, 2}) == 0);
  }
  const bool by_mapping = GENERATE(false, true);
  // Pages that are forbidden already are no obstacle.
  const bool has_earlier = GENERATE(false, true);
  if (has_earlier && !by_mapping) (void)s.mapper.forbid({{6}, 1}, {6});
  // Linux before 6.6 cannot forbid pages by page table entries.
  if (by_mapping || s.mapper.forbid(block, {7}).status == OpStatus::unsupported)
    REQUIRE(s.mapper.hide(block));
  CHECK_FALSE(reads(s.word({7})));
  CHECK_FALSE(reads(s.word({6})));
  CHECK_FALSE(reads(s.word({0})));
  if (!has_earlier) CHECK_FALSE(reads(s.word({511})));
  CHECK_FALSE(s.uffd->read_message());
  CHECK(s.pages_held() == 0);
}

}  // namespace wherry::test::userfaultfd_mapper_test
