// Held pages where other parts of the library need them: a device that is full of them, samples of
// accesses, memory that becomes private, and huge pages that Linux has made of pinned and other
// pages. Each case is a process of its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "held/held_counter.h"
#include "held/holders.h"
#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::situations_test {
namespace {

constexpr std::size_t block_pages = block_bytes / page_bytes;
constexpr std::uint64_t salt = 1;
// No operation may wait for a holder. One that takes this long counts as waiting.
constexpr std::chrono::seconds wait_limit{8};

// A pipe that holds pages of this process until take() reads it.
class Pipe {
 public:
  Pipe() {
    expect(::pipe2(ends_.data(), O_CLOEXEC) == 0, "pipe2");
    expect(::fcntl(ends_[1], F_SETPIPE_SZ, 1 << 20) >= 0, "F_SETPIPE_SZ");
  }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Where Linux does not answer faults in system calls, the pages are touched before.
  void give(std::uint64_t* first, std::size_t pages) {
    constexpr int attempts_max = 1000;
    const iovec piece{first, pages * page_bytes};
    for (int i = 0; i < attempts_max; ++i) {
      WHERRY_TRY(wherryTouchPages(first, piece.iov_len, WHERRY_TOUCH_READ));
      const ssize_t given = ::vmsplice(ends_[1], &piece, 1, SPLICE_F_NONBLOCK);
      if (given == static_cast<ssize_t>(piece.iov_len)) return;
      expect(given < 0 && errno == EFAULT, "vmsplice");
    }
    expect(false, "vmsplice returns EFAULT all the time");
  }
  std::vector<std::uint64_t> take(std::size_t pages) {
    std::vector<std::uint64_t> words(pages * page_words);
    auto* const bytes = reinterpret_cast<std::byte*>(words.data());
    for (std::size_t at = 0; at < pages * page_bytes;) {
      const ssize_t got = ::read(ends_[0], bytes + at, pages * page_bytes - at);
      expect(got > 0, "read of a pipe");
      at += static_cast<std::size_t>(got);
    }
    return words;
  }

 private:
  std::array<int, 2> ends_{};
};

void fill(std::uint64_t* first, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) first[i] = value_at(first + i, salt);
}
void expect_filled(const char* what, const std::uint64_t* found, const std::uint64_t* place,
                   std::size_t words) {
  Comparison seen;
  seen.add(found, place, words, salt);
  expect(seen.wrong == 0, std::string{what} + ": " + std::to_string(seen.wrong) + " of " +
                              std::to_string(words) + " words wrong, " +
                              std::to_string(seen.zeros) + " of them zero");
}
void prefetch(const std::uint64_t* first, std::size_t bytes, int to) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(first), bytes, location_of(to), 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}
void in_time(const char* what, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  expect(std::chrono::steady_clock::now() - begin < wait_limit,
         std::string{what} + " waits for the pipe");
}

// Has Linux merge the block. Returns false if it does not merge pages here. With page protection it
// does not do so in the background either (docs/decisions/held-pages.md), and the library does not
// expect it.
bool merge(int processor, const std::uint64_t* block) {
  if (traps_by_protection()) {
    std::printf("SKIP the trap is page protection\n");
    return false;
  }
  constexpr int attempts_max = 50;
  int error = 0;
  for (int i = 0; i < attempts_max; ++i) {
    error = PoolFile(index_of(processor)).merge(block);
    if (error == 0) return true;
    if (error != EAGAIN && error != EBUSY) break;
    ::usleep(1000);
  }
  std::printf("SKIP Linux merges no pages here: errno %d\n", error);
  return false;
}

// Says whether the library has found what a case holds. The host may not split a device's entries
// without a privilege: then pages get new frames, and are not held.
bool was_found_held(std::uint64_t held_before) {
  if (held_count() > held_before) return true;
  expect(why_missing("userfaultfd-full").has_value(), "nothing was held");
  std::printf("SKIP nothing was held\n");
  return false;
}

void check_in_process(const std::function<void()>& body) {
  constexpr int limit_ms = 120'000;
  const Outcome outcome = in_fresh_process(body, limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
  if (outcome.out.find("SKIP") != std::string::npos) WARN("skipped: " << outcome.out);
}

// ---- a device that is full of held pages

// Two blocks fill the device. One page of each is pinned, so that the others leave as parts of a
// huge page; and the host, which maps the blocks there, has given four of the others to a pipe.
void fill_device_with_held_pages() {
  constexpr std::size_t blocks = 2;
  constexpr std::size_t pinned_page = 300;
  constexpr std::size_t held_page = 100;
  constexpr std::size_t held_pages = 4;
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  Stage stage("capacity=4M,workers=2");
  const Words words((blocks + 1) * block_words), other(2 * block_words);
  std::uint64_t* const first = whole_block_of(words);
  std::uint64_t* const wanted = whole_block_of(other);
  fill(words.data(), words.size());
  fill(other.data(), other.size());
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  prefetch(first, blocks * block_bytes, device0);
  Pipe pipe;
  for (std::size_t i = 0; i < blocks; ++i) {
    std::uint64_t* const block = first + i * block_words;
    WHERRY_TRY(wherryPinPages(address_of(block + pinned_page * page_words), page_bytes));
    (void)stage.read_pages(host, block, block_bytes);
    if (!merge(device0, block)) return;
    pipe.give(block + held_page * page_words, held_pages);
  }

  const std::uint64_t held_before = held_count();
  in_time("a kernel", [&] { stage.write_pages(device0, wanted, page_bytes, *wanted); });
  in_time("a kernel", [&] { (void)stage.read_pages(device0, wanted, block_bytes); });
  const std::uint32_t place = stage.residents(wanted);
  if (!was_found_held(held_before)) return;
  expect(place == bit_of(host), "there was space for a page in a device full of held pages");
  in_time("a prefetch", [&] { prefetch(wanted, block_bytes, device0); });
  for (std::size_t i = 0; i < blocks; ++i) {
    std::uint64_t* const block = first + i * block_words;
    const std::vector<std::uint64_t> got = pipe.take(held_pages);
    expect_filled("the pipe", got.data(), block + held_page * page_words, got.size());
  }
  // Where the host must not split huge pages through a device's page table, pinned pages stay.
  for (std::size_t i = 0; i < blocks; ++i)
    WHERRY_TRY(wherryUnpinPages(address_of(first + i * block_words + pinned_page * page_words),
                                page_bytes));
  const bool moves = comes_true([&] {
    (void)stage.read(device0, wanted);
    return stage.residents(wanted) == bit_of(device0);
  });
  expect(moves, "the page does not move after the hold");
  expect_filled("the memory", first, first, blocks * block_words);
  expect_filled("the other memory", other.data(), other.data(), other.size());
}

// ---- a duplicated neighbour of pinned pages

void write_beside_pinned_pages() {
  constexpr std::size_t pinned_page = 100;
  constexpr std::size_t pinned_pages = 4;
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  Stage stage("capacity=64M,workers=2");
  const Words words(3 * block_words);
  std::uint64_t* const block = whole_block_of(words);
  std::uint64_t* const pinned = block + pinned_page * page_words;
  fill(block, block_words);
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  (void)stage.read_pages(device0, block, block_bytes);
  WHERRY_TRY(wherryPinPages(address_of(pinned), pinned_pages * page_bytes));
  (void)stage.read_pages(host, block, block_bytes);
  if (!merge(host, block)) return;
  Pipe pipe;
  pipe.give(pinned, pinned_pages);

  const std::uint64_t held_before = held_count();
  std::uint64_t* const written = block + 300 * page_words;
  std::uint64_t* const copied = block + 400 * page_words;
  const std::uint64_t value = *copied;
  in_time("a kernel", [&] { stage.write(device0, written, *written); });
  in_time("a copy", [&] {
    WHERRY_TRY(cuMemsetD32(address_of(copied), 7, 2));
    expect(*copied == 0x7'0000'0007 && stage.read(device0, copied) == *copied,
           "a processor reads what was there before a copy");
    WHERRY_TRY(cuMemcpyHtoD(address_of(copied), &value, sizeof value));
  });
  (void)was_found_held(held_before);
  const std::vector<std::uint64_t> got = pipe.take(pinned_pages);
  expect_filled("the pipe", got.data(), pinned, got.size());
  WHERRY_TRY(wherryUnpinPages(address_of(pinned), pinned_pages * page_bytes));
  for (const int processor : {host, device0}) {
    std::vector<std::uint64_t> seen(2);
    for (std::uint64_t* const word : {written, copied})
      expect(stage.read(processor, word) == value_at(word, salt), "a written page is wrong");
  }
  expect_filled("the memory", block, block, block_words);
}

// ---- samples of accesses

// A device of 16 blocks, which uses 24 in turns, so that blocks are evicted and others sampled.
void sample_held_pages() {
  constexpr std::size_t blocks = 24;
  constexpr std::size_t held_page = 37;
  constexpr std::size_t held_pages = 3;
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  Stage stage("capacity=32M,workers=2");
  const Words words((blocks + 1) * block_words);
  std::uint64_t* const first = whole_block_of(words);
  fill(first, blocks * block_words);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  const auto held_at = [&](std::size_t block) {
    return first + block * block_words + held_page * page_words;
  };
  const pid_t device = Witness::process_of(index_of(device0));
  // Whether a page that the kernel has read is sampled: in the device's pool, its entry removed.
  const auto has_sample = [&](std::size_t block) {
    for (std::size_t page = 0; page < block_pages; ++page) {
      const std::uint64_t* const word = first + block * block_words + page * page_words;
      if (!page_entry(device, word).present && stage.residents(word) == bit_of(device0))
        return true;
    }
    return false;
  };
  std::size_t samples = 0;
  const std::uint64_t rounds = std::max<std::uint64_t>(3, scaled(40));
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Pipe pipe;
    for (std::size_t block = 0; block < blocks; ++block) pipe.give(held_at(block), held_pages);
    // The device reads the first block each time, so that one is kept while others are evicted.
    for (std::size_t block = 0; block < blocks; ++block) {
      in_time("a kernel", [&] {
        (void)stage.read_pages(device0, first + block * block_words, block_bytes);
        (void)stage.read_pages(device0, first, block_bytes);
      });
    }
    for (std::size_t block = 0; block < blocks && samples == 0; ++block)
      samples += has_sample(block) ? 1 : 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::vector<std::uint64_t> got = pipe.take(held_pages);
      expect_filled("the pipe", got.data(), held_at(block), got.size());
    }
  }
  expect_filled("the memory", first, first, blocks * block_words);
  std::printf("%zu samples seen\n", samples);
  expect(samples > 0 || traps_by_protection(), "no access was sampled");
}

// ---- memory that becomes private

// The memory has two whole blocks and a part of a third one.
void make_held_pages_private(int place) {
  constexpr std::size_t bytes = 2 * block_bytes + 100 * page_bytes;
  constexpr std::size_t words = bytes / sizeof(std::uint64_t);
  constexpr std::size_t held_pages = 8;
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  Stage stage("kind=coherent,capacity=32M,workers=1");
  const std::size_t free_before = free_memory();
  for (std::uint64_t round = 0; round < std::max<std::uint64_t>(2, scaled(20)); ++round) {
    CUdeviceptr pointer = 0;
    WHERRY_TRY(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
    auto* const first = reinterpret_cast<std::uint64_t*>(pointer);
    fill(first, words);
    prefetch(first, bytes, place == host ? device0 : host);
    prefetch(first, bytes, place);
    Pipe pipe;
    const std::array<std::uint64_t*, 3> held{first + 50 * page_words,
                                             first + (block_pages + 200) * page_words,
                                             first + (2 * block_pages + 90) * page_words};
    for (std::uint64_t* const pages : held) pipe.give(pages, held_pages);
    // Some pages are given up before, in a huge page that is held.
    std::uint64_t* const given_up = first + (block_pages + 300) * page_words;
    WHERRY_TRY(wherryFreePages(address_of(given_up), 4 * page_bytes));
    expect(*given_up == 0, "a page that was given up has contents");
    fill(given_up, 4 * page_words);

    const std::uint64_t offset = pool_offset(first);
    in_time("wherryMakePrivate", [&] { WHERRY_TRY(wherryMakePrivate(pointer)); });
    for (const int processor : {host, device0}) {
      const PoolFile pool(index_of(processor));
      expect(pool.first_data(offset, offset + bytes) >= offset + bytes,
             "a pool has pages of memory that has become private");
    }
    expect_filled("the private memory", first, first, words);
    std::fill_n(first, words, 0);
    for (std::uint64_t* const pages : held) {
      const std::vector<std::uint64_t> got = pipe.take(held_pages);
      expect_filled("the pipe", got.data(), pages, got.size());
    }
    expect(::munmap(first, bytes) == 0, "munmap");
  }
  expect(comes_true([&] { return free_memory() >= free_before; }),
         "the device has less memory than before");
}

}  // namespace

TEST_CASE("a fault on a device that is full of held pages is answered remotely", "[held]") {
  check_in_process(fill_device_with_held_pages);
}

TEST_CASE("a write to a copy beside held pinned pages does not wait, and changes every copy",
          "[held]") {
  check_in_process(write_beside_pinned_pages);
}

TEST_CASE("samples of accesses to held pages change nothing", "[held]") {
  check_in_process(sample_held_pages);
}

TEST_CASE("held pages of memory that becomes private leave the pools at once", "[held]") {
  const int place = GENERATE(host, device0);
  check_in_process([place] { make_held_pages_private(place); });
}

}  // namespace wherry::test::situations_test
