// Faults that bring whole blocks: Linux's huge pages in the pools, and its huge page-table entries.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <thread>
#include <utility>

#include "support/catch.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::huge_fault_test {

namespace {

constexpr std::size_t blocks = 3;

Stage& stage() {
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  ::setenv("WHERRY_FAULT_REGION", "2M", 1);
  static Stage the_stage{"capacity=64M;capacity=64M"};
  return the_stage;
}

// Whole blocks of managed memory, at addresses that nobody has ever accessed: a device keeps the
// page tables of small pages, and Linux enters no huge page where there is one.
struct Blocks {
  Blocks() {
    static std::deque<Words> all;
    first = whole_block_of(all.emplace_back((blocks + 1) * block_words));
  }

  std::uint64_t* first = nullptr;
};

// One access in each block.
void touch(int processor, const Blocks& memory, std::uint64_t value) {
  const auto write = [first = memory.first, value] {
    for (std::size_t i = 0; i < blocks; ++i)
      const_cast<volatile std::uint64_t*>(first)[i * block_words + 77 * page_words] = value;
  };
  if (processor == host)
    write();
  else
    stage().session().run(processor, write);
}

// How many bytes the processor maps by huge entries, in its whole view and not only in `memory`.
std::uint64_t huge_entries_of(int processor, const Blocks& memory) {
  return huge_entries(Witness::process_of(index_of(processor)), memory.first);
}

// Like huge_entries_of(), when the number no longer changes: a faulting thread goes on before a
// handler has mapped all pages that its fault brought.
std::uint64_t settled_huge_entries_of(int processor, const Blocks& memory) {
  std::uint64_t seen = huge_entries_of(processor, memory);
  (void)comes_true([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::uint64_t before = std::exchange(seen, huge_entries_of(processor, memory));
    return before == seen;
  });
  return seen;
}

// Whether the processor comes to map all blocks by one entry each, where Linux can. A thread goes
// on as soon as the pages are there, and meanwhile the handler maps them.
bool comes_to_map_whole(int processor, const Blocks& memory, std::uint64_t entries_before) {
  return !merges_entries() || comes_true([&] {
    return huge_entries_of(processor, memory) == entries_before + blocks * block_bytes;
  });
}

// Finds out by a prefetch to device 0, which then has more huge entries or not.
bool pools_have_huge_pages() {
  static const bool have = [] {
    Stage& s = stage();
    const Blocks memory;
    s.write_pages(host, memory.first, block_bytes, 1);
    const std::uint64_t entries = settled_huge_entries_of(device0, memory);
    WHERRY_TRY(cuMemPrefetchAsync(address_of(memory.first), block_bytes, location_of(device0), 0,
                                  nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
    return huge_entries_of(device0, memory) > entries;
  }();
  if (!have) WARN("skipped: pools have no huge pages here");
  return have;
}

// One fault for each block. A thread that is woken for another fault faults again.
void check_faults(int p, std::uint64_t before) {
  const std::uint64_t faults = Stage::faults(p) - before;
  CHECK(faults >= blocks);
  CHECK(faults <= 2 * blocks);
}

}  // namespace

TEST_CASE("a first touch that covers a block creates one huge page", "[system]") {
  Stage& s = stage();
  if (!pools_have_huge_pages()) return;
  for (const int p : {host, device0}) {
    CAPTURE(p);
    const Blocks memory;
    const std::uint64_t entries = settled_huge_entries_of(p, memory);
    const std::uint64_t faults = Stage::faults(p);
    touch(p, memory, 1);
    check_faults(p, faults);
    CHECK(comes_to_map_whole(p, memory, entries));
    for (std::size_t i = 0; i < blocks * block_words; i += page_words)
      if (s.residents(memory.first + i) != bit_of(p)) FAIL("page " << i / page_words);
  }
}

TEST_CASE("a fault that moves a block makes it one huge page, with its contents", "[system]") {
  Stage& s = stage();
  if (!pools_have_huge_pages()) return;
  const Blocks memory;
  for (std::size_t i = 0; i < blocks * block_words; i += page_words)
    *const_cast<volatile std::uint64_t*>(memory.first + i) = i;
  for (const int p : {device0, device1, host, device1, device0, host}) {
    CAPTURE(p);
    // Faults of the processor that had the pages may be counted later: its thread went on when the
    // handler had given the block one entry, and the handler reads its last message after that.
    const std::uint64_t faults = Stage::faults(p);
    touch(p, memory, 7);
    check_faults(p, faults);
    for (std::size_t i = 0; i < blocks * block_words; i += page_words)
      if (s.residents(memory.first + i) != bit_of(p)) FAIL("page " << i / page_words);
  }
  touch(device0, memory, 8);
  for (std::size_t i = 0; i < blocks * block_words; i += page_words) {
    const std::uint64_t expected = i % block_words == 77 * page_words ? 8 : i;
    if (memory.first[i] != expected) FAIL("page " << i / page_words);
  }
}

TEST_CASE("a block that comes with a fault is mapped by one entry", "[system]") {
  if (!pools_have_huge_pages()) return;
  const Blocks memory;
  for (const int p : {host, device0, device1}) {
    CAPTURE(p);
    const std::uint64_t entries = settled_huge_entries_of(p, memory);
    touch(p, memory, 1);
    CHECK(comes_to_map_whole(p, memory, entries));
  }
}

TEST_CASE("a page of a huge page that is taken away leaves the others where they are", "[system]") {
  Stage& s = stage();
  if (!pools_have_huge_pages()) return;
  const Blocks memory;
  for (std::size_t i = 0; i < blocks * block_words; i += page_words) memory.first[i] = i;
  touch(device0, memory, 7);
  constexpr std::size_t moved = 5 * page_words;
  WHERRY_TRY(cuMemPrefetchAsync(address_of(memory.first + moved), page_bytes, location_of(host), 0,
                                nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  for (std::size_t i = 0; i < block_words; i += page_words)
    if (s.residents(memory.first + i) != bit_of(i == moved ? host : device0))
      FAIL("page " << i / page_words);
  CHECK(memory.first[moved] == moved);
  CHECK(memory.first[moved + page_words] == moved + page_words);
}

// Parts come in small pages, which Linux enters one by one.
void prefetch_in_parts(int processor, const Blocks& memory) {
  constexpr std::size_t last = 3 * page_bytes;
  for (std::size_t block = 0; block < blocks; ++block) {
    const CUdeviceptr first = address_of(memory.first + block * block_words);
    WHERRY_TRY(cuMemPrefetchAsync(first, block_bytes - last, location_of(processor), 0, nullptr));
    WHERRY_TRY(
        cuMemPrefetchAsync(first + block_bytes - last, last, location_of(processor), 0, nullptr));
  }
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

TEST_CASE("a block that came in parts becomes one huge page with one entry", "[system]") {
  Stage& s = stage();
  if (!pools_have_huge_pages()) return;
  const Blocks memory;
  for (std::size_t i = 0; i < blocks * block_words; i += page_words)
    *const_cast<volatile std::uint64_t*>(memory.first + i) = i;
  const auto count_up = [first = memory.first] {
    for (std::size_t i = 0; i < blocks * block_words; i += page_words)
      const_cast<volatile std::uint64_t*>(first)[i + 1] = first[i + 1] + 1;
  };
  constexpr std::array order{device0, host, device1, device0, host};
  for (const int p : order) {
    CAPTURE(p);
    const std::uint64_t entries = settled_huge_entries_of(p, memory);
    prefetch_in_parts(p, memory);
    CHECK(comes_to_map_whole(p, memory, entries));
    for (std::size_t i = 0; i < blocks * block_words; i += page_words)
      if (s.residents(memory.first + i) != bit_of(p)) FAIL("page " << i / page_words);
    if (p == host)
      count_up();
    else
      s.session().run(p, count_up);
  }
  for (std::size_t i = 0; i < blocks * block_words; i += page_words)
    if (memory.first[i] != i || memory.first[i + 1] != order.size())
      FAIL("page " << i / page_words);
}

TEST_CASE("a page that is in use elsewhere for a moment keeps no block in parts", "[system]") {
  if (!pools_have_huge_pages()) return;
  const Blocks memory;
  for (std::size_t i = 0; i < blocks * block_words; i += page_words)
    *const_cast<volatile std::uint64_t*>(memory.first + i) = i;
  (void)settled_huge_entries_of(host, memory);
  prefetch_in_parts(device0, memory);
  const std::uint64_t entries = settled_huge_entries_of(host, memory);
  prefetch_in_parts(host, memory);
  // Linux keeps a reference to the page while it is in the pipe, and merges no page with one.
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const iovec page{memory.first + 7 * page_words, page_bytes};
  CHECK(::vmsplice(ends[1], &page, 1, 0) == ssize_t{page_bytes});
  // The pipe holds the page during the first attempts to merge, which come after 50 and 100 ms.
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  for (const int end : ends) ::close(end);
  CHECK(comes_to_map_whole(host, memory, entries));
  CHECK(memory.first[7 * page_words] == 7 * page_words);
}

// Without a userfaultfd, when Linux merges pages in the background, it fills the holes between them
// with zeros. It does so where a mapping permits huge pages.
TEST_CASE("holes of a pool stay holes, wherever pages come and go", "[system]") {
  if (!pools_have_huge_pages() || userfaultfd_tracks_memory()) return;
  constexpr int processors = 3;
  const Blocks memory;
  const auto check = [&](const char* after) {
    CAPTURE(after);
    for (int p = 0; p < processors; ++p) {
      CAPTURE(p);
      const auto hole = fillable_hole(Witness::process_of(p), processors);
      CHECK(hole.value_or("none") == "none");
    }
  };
  const auto prefetch = [&](int processor, std::size_t first_page, std::size_t count) {
    WHERRY_TRY(cuMemPrefetchAsync(address_of(memory.first + first_page * page_words),
                                  count * page_bytes, location_of(processor), 0, nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
  };
  constexpr std::size_t block_pages = block_bytes / page_bytes;
  for (std::size_t i = 0; i < blocks * block_words; i += page_words)
    *const_cast<volatile std::uint64_t*>(memory.first + i) = i;
  check("first touch");
  for (const int p : {device0, host, device1, device0}) {
    prefetch(p, 0, blocks * block_pages);
    touch(p, memory, 7);
    check("whole blocks");
  }
  prefetch(host, 5, 1);
  check("one page to the host");
  prefetch(device1, block_pages + 64, 200);
  check("a part to another device");
  touch(device0, memory, 8);
  touch(host, memory, 9);
  check("accesses to the rest");
  prefetch_in_parts(device0, memory);
  touch(device0, memory, 10);
  check("all parts together again");
  prefetch(host, 2 * block_pages, 16);
  check("a part of a merged block");

  // Linux refuses to merge the block. khugepaged would try the same later.
  const PoolFile pool(1 + device0);
  const std::uint64_t before = pool.allocated_bytes();
  const PoolFile host_pool(0);
  const std::uint64_t host_before = host_pool.allocated_bytes();
  constexpr int collapse = 25;  // MADV_COLLAPSE, which older headers lack
  CHECK(::madvise(memory.first + 2 * block_words, block_bytes, collapse) != 0);
  CHECK(pool.allocated_bytes() == before);
  CHECK(host_pool.allocated_bytes() == host_before);
  for (std::size_t i = 1; i < blocks * block_words; i += page_words)
    if (memory.first[i] != 0) FAIL("word " << i);
}

TEST_CASE("a block that comes again to a device is mapped by one entry again", "[system]") {
  if (!pools_have_huge_pages()) return;
  const Blocks memory;
  const std::uint64_t entries = settled_huge_entries_of(device0, memory);
  for (const int p : {device0, host, device0}) {
    WHERRY_TRY(cuMemPrefetchAsync(address_of(memory.first), blocks * block_bytes, location_of(p), 0,
                                  nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
  }
  CHECK(comes_to_map_whole(device0, memory, entries));
}

TEST_CASE("a block that another processor maps keeps all entries while others become huge pages",
          "[system]") {
  Stage& s = stage();
  if (!pools_have_huge_pages()) return;
  const Blocks memory, later;
  for (const Blocks& written : {memory, later})
    s.write_pages(host, written.first, blocks * block_bytes, 1);
  advise(memory.first, blocks * block_bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  prefetch_in_parts(device0, memory);
  const std::uint64_t entries = settled_huge_entries_of(device1, later);
  prefetch_in_parts(device1, later);
  // Blocks are merged in the order in which they came.
  CHECK(comes_to_map_whole(device1, later, entries));
  for (std::size_t i = 0; i < blocks * block_words; i += page_words)
    if (!s.comes_to_map(host, memory.first + i)) FAIL("page " << i / page_words);
}

}  // namespace wherry::test::huge_fault_test
