#include "memory/pool.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "os/files/file_io.h"
#include "os/files/file_window.h"
#include "os/memory/page_frames.h"
#include "os/process/permissions.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/descriptors.h"
#include "support/kernel_view.h"

namespace wherry::test::pool_test {

using namespace wherry::impl;
using wherry::test::allocated_bytes;
using wherry::test::huge_entries;

TEST_CASE("a pool's file is filled where it has no pages, and only there") {
  SparsePoolFile pool("pool-test", 4 * block_size, HugePages::if_possible,
                      permissions().userfaultfd());
  std::vector<std::byte> data(2 * page_size, std::byte{7});
  REQUIRE(pool.fill({{5}, 2}, data.data()));
  CHECK(*pool.alias({5}) == std::byte{7});
  CHECK(allocated_bytes(pool.file().fd_at(0)) == 2 * page_size);
  CHECK(pool.fill({{6}, 1}, data.data()).status == OpStatus::occupied);
  REQUIRE(pool.fill_zero({{7}, 1}));
  CHECK(*pool.alias({7}) == std::byte{0});
  REQUIRE(pool.punch({{5}, 1}) == 0);
  REQUIRE(pool.fill_zero({{5}, 1}));
  CHECK(*pool.alias({5}) == std::byte{0});
  CHECK(allocated_bytes(pool.file().fd_at(0)) == 3 * page_size);
}

// Linux creates the largest folio that fits, and fills what was not written with zeros.
TEST_CASE("a part of a block is filled without filling a hole beside it") {
  SparsePoolFile pool("pool-test", block_size, HugePages::if_possible, permissions().userfaultfd());
  std::vector<std::byte> data(block_size, std::byte{7});
  const int file = pool.file().fd_at(0);
  const auto fill = [&](unsigned first, unsigned count) {
    REQUIRE(pool.fill({{first}, count}, data.data()));
    for (unsigned page = first; page < first + count; ++page)
      REQUIRE(*pool.alias({page}) == std::byte{7});
  };
  for (unsigned present = 0; present < pages_per_block; present += 37)
    for (unsigned count = 4; count < pages_per_block; count *= 2)
      for (unsigned first = 0; first + count <= pages_per_block;
           first += std::max(count / 2, 13u)) {
        if (present >= first && present < first + count) continue;
        CAPTURE(present, first, count);
        fill(first, count);
        REQUIRE(allocated_bytes(file) == count * page_size);
        REQUIRE(pool.punch({{0}, pages_per_block}) == 0);
        fill(present, 1);
        fill(first, count);
        REQUIRE(allocated_bytes(file) == (count + 1) * page_size);
        REQUIRE(pool.punch({{0}, pages_per_block}) == 0);
      }
  for (unsigned count = 16; count < pages_per_block; count *= 2) {
    CAPTURE(count);
    fill(0, count);
    fill(count, count);
    REQUIRE(allocated_bytes(file) == 2 * count * page_size);
    REQUIRE(pool.punch({{0}, pages_per_block}) == 0);
  }
}

TEST_CASE("without userfaultfd, only whole blocks become huge pages, and holes stay holes") {
  SparsePoolFile pool("pool-test", 4 * block_size, HugePages::if_possible, std::nullopt);
  if (!pool.maps_huge_pages()) {
    WARN("skipped: pools have no huge pages here");
    return;
  }
  CHECK_FALSE(pool.views_permit_huge_pages());
  const int file = pool.file().fd_at(0);
  std::vector<std::byte> data(block_size, std::byte{7});
  const PageSpan first{{0}, pages_per_block};
  const PageSpan second{{pages_per_block}, pages_per_block};
  const auto is_huge = [&](PageSpan span) {
    FileWindow window(block_size);
    REQUIRE(window.show(file, span.offset(), block_size, FileWindow::Use::reading) == 0);
    return test::huge_entries(::getpid(), window.shown().data()) == block_size;
  };
  REQUIRE(pool.fill(first, data.data()));
  REQUIRE(pool.fill_zero(second));
  CHECK(allocated_bytes(file) == 2 * block_size);
  CHECK(*pool.alias({511}) == std::byte{7});
  CHECK(*pool.alias({512}) == std::byte{0});
  CHECK(is_huge(first));
  CHECK(is_huge(second));
  CHECK(pool.fill_zero(second).status == OpStatus::occupied);

  // The library's own mapping creates and merges nothing around a page.
  REQUIRE(pool.punch(first) == 0);
  REQUIRE(pool.fill({{5}, 1}, data.data()));
  CHECK(allocated_bytes(file) == block_size + page_size);
  CHECK(merge_pages({const_cast<std::byte*>(pool.alias({0})), block_size}) != 0);
  CHECK(allocated_bytes(file) == block_size + page_size);

  REQUIRE(pool.fill({{0}, 5}, data.data()));
  REQUIRE(pool.fill({{6}, pages_per_block - 6}, data.data()));
  CHECK(allocated_bytes(file) == 2 * block_size);
  CHECK_FALSE(is_huge(first));
  REQUIRE(pool.merge(first) == 0);
  CHECK(is_huge(first));
  CHECK(*pool.alias({5}) == std::byte{7});
}

// The reads stand for forced ones (ptrace, /proc/PID/mem), which page protection does not keep out.
TEST_CASE("pages get new frames and keep their contents while somebody's reads fill the holes") {
  for (const bool by_userfaultfd : {false, true}) {
    CAPTURE(by_userfaultfd);
    SparsePoolFile pool("pool-test", block_size, HugePages::if_possible,
                        by_userfaultfd ? permissions().userfaultfd() : std::nullopt);
    const PageSpan part{{16}, 64};
    std::vector<std::uint64_t> data(part.bytes() / sizeof(std::uint64_t));
    std::iota(data.begin(), data.end(), 1);
    const auto* const contents = reinterpret_cast<const std::byte*>(data.data());
    REQUIRE(pool.fill(part, contents));

    FileWindow window(block_size);
    REQUIRE(window.show(pool.file().fd_at(0), 0, block_size, FileWindow::Use::reading) == 0);
    const std::byte* const seen = window.shown().data() + part.offset();
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      while (!stop)
        for (std::size_t at = 0; at < part.bytes(); at += page_size)
          (void)*const_cast<const volatile std::byte*>(seen + at);
    });
    bool kept = true;
    for (std::uint64_t round = 0; round < scaled(2000) && kept; ++round) {
      kept = pool.rebuild(part, PageMask::of({16, 64})) == OpStatus::ok &&
             std::memcmp(seen, contents, part.bytes()) == 0;
    }
    stop = true;
    reader.join();
    CHECK(kept);
  }
}

TEST_CASE(
    "pages of a small folio that Linux merges with others share a huge page with all of them") {
  SparsePoolFile pool("pool-test", block_size, HugePages::if_possible, permissions().userfaultfd());
  if (!pool.views_permit_huge_pages()) {
    WARN("skipped: Linux merges no pages of pools in the background here");
    return;
  }
  std::vector<std::byte> data(block_size, std::byte{7});
  const auto fill_pages = [&](unsigned first, unsigned end) {
    for (unsigned page = first; page < end; ++page) REQUIRE(pool.fill({{page}, 1}, data.data()));
  };
  fill_pages(0, 16);
  REQUIRE(pool.fill({{16}, 16}, data.data()));
  fill_pages(32, pages_per_block);
  const PageMask all = ~PageMask{};
  CHECK(pool.folios({{20}, 4}, all) != Folios::huge_page);

  FileWindow window(block_size);
  REQUIRE(window.show(pool.file().fd_at(0), 0, block_size, FileWindow::Use::creating_huge_pages) ==
          0);
  int merged = -EAGAIN;
  for (int attempt = 0; attempt < 100 && (merged == -EAGAIN || merged == -EBUSY); ++attempt)
    merged = merge_pages(window.shown());
  window.hide();
  REQUIRE(merged == 0);
  CHECK(pool.folios({{20}, 4}, all) == Folios::huge_page);
  const PageSpan together = pool.folios_around({{20}, 4});
  CHECK(together.first == PageIndex{0});
  CHECK(together.count == pages_per_block);
}

// The part is punched at random moments of Linux's merge.
TEST_CASE("a part of a full block leaves while Linux merges the block, and is known to have left") {
  SparsePoolFile pool("pool-test", block_size, HugePages::if_possible, permissions().userfaultfd());
  if (!pool.views_permit_huge_pages()) {
    WARN("skipped: Linux merges no pages of pools in the background here");
    return;
  }
  const std::vector<std::byte> data(block_size, std::byte{7});
  const PageSpan whole = block_span({0});
  const PageSpan part{{0}, 16};
  const PageSpan beside{{16}, 16};
  const PageMask all = ~PageMask{};
  std::mt19937_64 random(seed());
  for (std::uint64_t round = 0; round < scaled(1000); ++round) {
    for (unsigned page = 0; page < pages_per_block; ++page)
      REQUIRE(pool.fill({{page}, 1}, data.data()));
    std::atomic<bool> begun{false};
    std::thread merging([&] {
      begun = true;
      (void)pool.merge(whole);
    });
    while (!begun) std::this_thread::yield();
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 800);
    while (std::chrono::steady_clock::now() < end) continue;
    if (pool.folios(part, all) != Folios::apart) REQUIRE(pool.rebuild(whole, all) == OpStatus::ok);
    REQUIRE(pool.punch_from_full_block(part) == 0);
    merging.join();
    REQUIRE(pool.file().first_data(0, block_size) >= part.bytes());
    // If the page behind `beside` is not the first one of its folio, `beside` has pages of it, too.
    const std::byte* const further = pool.alias({beside.end()});
    (void)*const_cast<const volatile std::byte*>(further);
    if (PageFrames().place_of(reinterpret_cast<std::uintptr_t>(further)) ==
        PageFrames::Place::further)
      REQUIRE(pool.folios(beside, all - PageMask::of({0, 16})) != Folios::apart);
    REQUIRE(pool.punch(whole) == 0);
  }
}

TEST_CASE("a block is filled while a write of another block holds the file's lock") {
  const auto access = permissions().userfaultfd();
  SparsePoolFile pool("pool-test", 4 * block_size, HugePages::if_possible, access);
  if (!pool.maps_huge_pages() || !serves_system_calls(access)) {
    WARN("skipped: pools have no huge pages here, or userfaultfd serves no system calls");
    return;
  }
  // The first write waits for its source, because nobody answers the fault.
  const Mapping absent = Mapping::zeroed(block_size);
  const Userfaultfd uffd(Userfaultfd::create(*access));
  REQUIRE(uffd.register_missing(absent.address(), absent.size()) == 0);
  OpResult first;
  std::thread writer([&] { first = pool.fill({{0}, pages_per_block}, absent.data()); });
  std::optional<FaultMessage> fault;
  while (!fault) fault = uffd.read_message();

  std::vector<std::byte> data(block_size, std::byte{7});
  data.back() = std::byte{8};
  const PageSpan second{{pages_per_block}, pages_per_block};
  auto filled = std::async(std::launch::async, [&] { return pool.fill(second, data.data()); });
  CHECK(filled.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  REQUIRE(uffd.unregister_range(absent.address(), absent.size()) == 0);
  CHECK(filled.get());
  CHECK(std::ranges::equal(pool.block_alias(second), data));
  CHECK(huge_entries(::getpid(), pool.block_alias(second).data()) == block_size);
  writer.join();
  CHECK(first);
  CHECK(allocated_bytes(pool.file().fd_at(0)) == 2 * block_size);
}

TEST_CASE("a punched part of a referenced huge page becomes zeros, and can be freed later") {
  SparsePoolFile pool("pool-test", 4 * block_size, HugePages::if_possible,
                      permissions().userfaultfd());
  if (!pool.maps_huge_pages()) {
    WARN("skipped: pools have no huge pages here");
    return;
  }
  const std::vector<std::byte> data(block_size, std::byte{7});
  REQUIRE(write_at(pool.file().fd_at(0), 0, data) == int{block_size});
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  // The pipe holds a reference to the huge page.
  const iovec held{const_cast<std::byte*>(pool.alias({100})), page_size};
  REQUIRE(::vmsplice(pipe[1], &held, 1, 0) == static_cast<ssize_t>(page_size));

  REQUIRE(pool.punch({{5}, 2}) == 0);
  CHECK(pool.file().first_data(5 * page_size, 7 * page_size) == 5 * page_size);
  for (const PageIndex page : {PageIndex{5}, PageIndex{6}})
    CHECK(*pool.alias(page) == std::byte{0});
  CHECK(*pool.alias({7}) == std::byte{7});
  CHECK(pool.fill({{5}, 1}, data.data()).status == OpStatus::occupied);

  // The reference ends while the punch waits.
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    ::close(pipe[0]);
    ::close(pipe[1]);
  });
  REQUIRE(pool.punch({{5}, 2}) == 0);
  holder.join();
  REQUIRE(pool.punch({{5}, 2}) == 0);  // if the thread closed the pipe too late for the first one
  CHECK(pool.file().first_data(5 * page_size, 7 * page_size) == 7 * page_size);
  CHECK(pool.fill({{5}, 1}, data.data()));
  CHECK(*pool.alias({5}) == std::byte{7});
}

}  // namespace wherry::test::pool_test
