// Where prefetched memory is, and its contents, checked against Linux's pools, page tables and
// frames. prefetch_test.cc tests each sentence of the contract.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::prefetch_residency_test {

namespace {

constexpr std::array processors{host, device0, device1};
constexpr std::size_t mib_words = (std::size_t{1} << 20) / sizeof(std::uint64_t);

Stage& stage() {
  // "arriving": the library merges no pages in the background after a prefetch.
  static Stage the_stage("capacity=64M;capacity=64M", "WHERRY_HUGE_PAGES", "arriving");
  return the_stage;
}

void prefetch(const std::uint64_t* first, std::size_t bytes, int to, CUstream stream = nullptr) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(first), bytes, location_of(to), 0, stream));
}

// Prefetches, and waits until the prefetch has completed.
void prefetch_now(const Words& words, int to) {
  prefetch(words.data(), words.bytes(), to);
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

// Gives each page a value of its own.
void number_pages(int processor, const Words& words) {
  const auto number = [first = words.data(), pages = words.size() / page_words] {
    for (std::size_t i = 0; i < pages; ++i)
      *const_cast<volatile std::uint64_t*>(first + i * page_words) = i + 1;
  };
  if (processor == host)
    number();
  else
    stage().session().run(processor, number);
}

// Words whose pages the processor has numbered.
struct Numbered : Words {
  explicit Numbered(std::size_t count, int processor = host) : Words(count) {
    number_pages(processor, *this);
  }
};

// Counts the pages that are not at `where` alone, or that do not hold their number.
std::size_t wrong_pages(const Words& words, int where) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words) {
    std::uint32_t residents = stage().residents(&words[i]);
    if (residents == bit_of(where)) continue;
    residents &= ~stage().witness().leftovers(&words[i], residents & ~bit_of(where));
    if (residents == bit_of(where)) continue;
    if (wrong++ == 0)
      WARN("page " << i / page_words << " is at " << residents << " (a mask), not at " << where);
  }
  const std::uint64_t pages = words.size() / page_words;
  const std::uint64_t sum = stage().read_pages(where, words.data(), words.bytes());
  return wrong + (sum == pages * (pages + 1) / 2 ? 0 : 1);
}

// Whether a prefetch brought the words to device 0 as huge pages.
bool came_as_huge_pages(const Words& words) {
  if (huge_entries(Witness::process_of(1 + device0), words.data()) != 0) return true;
  WARN("pools have no huge pages on this machine");
  return false;
}

// Whether the page is part of a huge page. Requires: Linux shows frame numbers.
bool is_huge(const void* word) {
  const PageEntry entry = page_entry(Witness::process_of(0), word);
  const int flags = ::open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
  std::uint64_t bits = 0;
  const bool read = ::pread(flags, &bits, sizeof bits, static_cast<off_t>(entry.frame * 8)) == 8;
  ::close(flags);
  if (!read) throw std::runtime_error("no page flags");
  return (bits >> 22 & 1) != 0;  // KPF_THP
}

}  // namespace

TEST_CASE(
    "prefetched pages are at the destination alone, with their contents, and cause no faults there",
    "[system]") {
  Stage& s = stage();
  for (const std::size_t count :
       {3 * page_words, region_words, 2 * mib_words, 7 * mib_words + 5 * page_words}) {
    const Numbered words{count};
    for (const int to : {device0, device1, host, device1, device0, host}) {
      CAPTURE(count, to);
      prefetch_now(words, to);
      CHECK(s.comes_to_map(to, words.data()));
      const std::uint64_t faults = Stage::faults();
      CHECK(wrong_pages(words, to) == 0);
      CHECK(Stage::faults() == faults);
      check_page(s, words.data(), bit_of(to), bit_of(to));
    }
  }
}

TEST_CASE("only the pages that a range overlaps move", "[system]") {
  Stage& s = stage();
  const Numbered words{4 * mib_words};
  // From the last byte of page 99 to the first byte of page 800.
  prefetch(words.data(), 1, host);
  WHERRY_TRY(cuMemPrefetchAsync(address_of(words) + 100 * page_bytes - 1, 700 * page_bytes + 2,
                                location_of(device0), 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  for (std::size_t page = 0; page < words.size() / page_words; ++page) {
    const int where = page >= 99 && page <= 800 ? device0 : host;
    if (s.residents(&words[page * page_words]) != bit_of(where)) FAIL("page " << page);
  }
  prefetch_now(words, host);
  CHECK(wrong_pages(words, host) == 0);
}

TEST_CASE("a remote mapping ends when the pages are prefetched to its processor", "[system]") {
  Stage& s = stage();
  const Words words{2 * mib_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  number_pages(host, words);
  CHECK(s.read(device0, words.data()) == 1);
  CHECK(s.same_frame(host, device0, words.data()));
  prefetch_now(words, device0);
  CHECK(wrong_pages(words, device0) == 0);
  CHECK(s.comes_to_map(device0, words.data()));
}

TEST_CASE("a kernel that follows a prefetch in its stream finds the memory there", "[system]") {
  Stage& s = stage();
  const Numbered words{6 * mib_words};
  const std::uint64_t before = Stage::faults(device0);
  prefetch(words.data(), words.bytes(), device0, s.session().stream(device0));
  s.read_pages(device0, words.data(), words.bytes());
  CHECK(Stage::faults(device0) == before);
  CHECK(wrong_pages(words, device0) == 0);
}

TEST_CASE("a whole block is one huge page where pools have huge pages", "[system]") {
  Stage& s = stage();
  const Numbered words{4 * mib_words};
  if (!s.comes_to_map(host, words.data()) ||
      page_entry(Witness::process_of(0), words.data()).frame == 0) {
    WARN("the kernel shows no frames");
    return;
  }
  prefetch_now(words, device0);
  prefetch_now(words, host);
  // Reads the pages, because the host's page table may have no entries for them yet.
  for (const std::size_t mib : {0, 3}) (void)s.read(host, &words[mib * mib_words]);
  const bool huge = is_huge(words.data());
  CHECK(is_huge(&words[3 * mib_words]) == huge);
  // Part of a huge page moves; the rest stays and keeps its contents.
  prefetch(&words[5 * page_words], 30 * page_bytes, device0);
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  CHECK(s.residents(&words[4 * page_words]) == bit_of(host));
  CHECK(s.residents(&words[5 * page_words]) == bit_of(device0));
  prefetch_now(words, host);
  CHECK(wrong_pages(words, host) == 0);
}

TEST_CASE("when a prefetch to the host is done, the host maps all blocks by one entry each",
          "[system]") {
  Stage& s = stage();
  const Numbered words{16 * mib_words};
  prefetch_now(words, device0);
  if (!came_as_huge_pages(words)) return;
  const std::uint64_t entries = huge_entries(::getpid(), words.data());
  prefetch_now(words, host);
  if (merges_entries()) CHECK(huge_entries(::getpid(), words.data()) - entries >= 7 * block_bytes);
  const std::uint64_t faults = Stage::faults();
  s.read_pages(host, whole_block_of(words), 7 * block_bytes);
  CHECK(Stage::faults() == faults);
  CHECK(wrong_pages(words, host) == 0);
}

TEST_CASE(
    "a prefetched block is mapped by one entry, and the rest of a split block by at most one fault",
    "[system]") {
  Stage& s = stage();
  const Numbered words{8 * mib_words};
  prefetch_now(words, device0);
  if (!came_as_huge_pages(words)) return;
  CHECK(huge_entries(Witness::process_of(1 + device0), words.data()) >= 3 * block_bytes);
  const std::uint64_t before = Stage::faults(device0);
  const std::uint64_t* const block = whole_block_of(words);
  s.read_pages(device0, block, block_bytes);
  CHECK(Stage::faults(device0) == before);
  // A fault could bring more than a region, as the policy decides.
  prefetch(block, region_words * sizeof(std::uint64_t), host);
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  REQUIRE(s.residents(block) == bit_of(host));
  REQUIRE(s.residents(block + region_words) == bit_of(device0));
  s.read_pages(device0, block + region_words, block_bytes - region_words * sizeof(std::uint64_t));
  // No fault, if the library mapped the rest of the block again at once
  // (migration/folio_separator.h).
  CHECK(Stage::faults(device0) <= before + 1);
  prefetch_now(words, host);
  CHECK(wrong_pages(words, host) == 0);
}

TEST_CASE("discarded memory takes no space in pools", "[system]") {
  Stage& s = stage();
  const Numbered words{4 * mib_words, device0};
  const std::uint64_t before = s.witness().pool_bytes(1);
  CUdeviceptr first = address_of(words);
  std::size_t bytes = words.bytes();
  WHERRY_TRY(cuMemDiscardBatchAsync(&first, &bytes, 1, 0, s.session().stream(device0)));
  WHERRY_TRY(s.session().wait(device0));
  CHECK(s.witness().pool_bytes(1) == before - words.bytes());
  CHECK(s.residents(words.data()) == 0);
  s.write(device1, words.data(), 7);
  CHECK(s.read(host, words.data()) == 7);
}

TEST_CASE("discarded and then prefetched memory is at the destination, and nothing was copied",
          "[system]") {
  Stage& s = stage();
  const Numbered words{4 * mib_words};
  const std::uint64_t copied = read_stats().bytes_copied;
  CUdeviceptr first = address_of(words);
  std::size_t bytes = words.bytes();
  CUmemLocation to = location_of(device1);
  std::size_t index = 0;
  WHERRY_TRY(cuMemDiscardAndPrefetchBatchAsync(&first, &bytes, 1, &to, &index, 1, 0,
                                               s.session().stream(device1)));
  WHERRY_TRY(s.session().wait(device1));
  CHECK(read_stats().bytes_copied == copied);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (s.residents(&words[i]) != bit_of(device1)) FAIL("page " << i / page_words);
}

TEST_CASE("a prefetch of more than fits moves what fits, and evicts no more than that",
          "[system]") {
  Stage& s = stage();
  const Numbered words{100 * mib_words};
  prefetch_now(words, device1);
  CHECK(s.witness().used_bytes(2) <= std::uint64_t{64} << 20);
  CHECK(s.witness().pool_bytes(2) >= std::uint64_t{48} << 20);
  // Pages that arrived first were not evicted for later ones.
  CHECK(s.residents(words.data()) == bit_of(device1));
  CHECK(s.residents(&words[words.size() - 1]) == bit_of(host));
  const std::uint64_t pages = words.size() / page_words;
  CHECK(s.read_pages(host, words.data(), words.bytes()) == pages * (pages + 1) / 2);
}

TEST_CASE("all processors can use memory while it is prefetched back and forth", "[system]") {
  Stage& s = stage();
  constexpr std::size_t pages = 5 * mib_words / page_words;
  const Numbered words{pages * page_words};
  const std::uint64_t rounds = scaled(60);
  std::atomic<bool> stop{false};
  std::thread courier([&] {
    cuCtxSetCurrent(s.session().context(0));
    CUstream stream = nullptr;
    if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return;
    std::mt19937_64 random(seed());
    while (!stop) {
      const std::size_t first = random() % pages;
      const std::size_t count = 1 + random() % (pages - first);
      prefetch(&words[first * page_words], count * page_bytes,
               processors[random() % processors.size()], stream);
      cuStreamSynchronize(stream);
    }
    cuStreamDestroy(stream);
  });
  // Each processor increments its own word of every page.
  const auto add = [first = words.data()](std::size_t word) {
    for (std::size_t i = 0; i < pages; ++i) {
      auto* const place = const_cast<volatile std::uint64_t*>(first + i * page_words + word);
      *place = *place + 1;
    }
  };
  for (std::uint64_t round = 0; round < rounds; ++round) {
    s.session().launch(device0, 1, [add](std::size_t) { add(1); });
    s.session().launch(device1, 1, [add](std::size_t) { add(2); });
    add(3);
    WHERRY_TRY(s.session().wait(device0));
    WHERRY_TRY(s.session().wait(device1));
  }
  stop = true;
  courier.join();
  for (std::size_t i = 0; i < pages; ++i) {
    CHECK(words[i * page_words] == i + 1);
    for (const std::size_t word : {1, 2, 3})
      if (words[i * page_words + word] != rounds) FAIL("page " << i << ", word " << word);
  }
}

TEST_CASE("the location of a page can be queried during a prefetch", "[system]") {
  Stage& s = stage();
  const Numbered words{32 * mib_words};
  for (const int to : {device0, device1, host}) {
    prefetch(words.data(), words.bytes(), to, s.session().stream(device0));
    std::size_t there = 0;
    for (std::size_t i = 0; i < words.size(); i += 16 * page_words)
      there += page_state(&words[i]).resident == bit_of(to) ? 1 : 0;
    CHECK(there <= words.size() / (16 * page_words));
    CUresult state = CUDA_ERROR_NOT_READY;
    while (state == CUDA_ERROR_NOT_READY) {
      for (std::size_t i = 0; i < words.size(); i += 512 * page_words) (void)page_state(&words[i]);
      state = cuStreamQuery(s.session().stream(device0));
    }
    CHECK(state == CUDA_SUCCESS);
    CHECK(wrong_pages(words, to) == 0);
  }
}

TEST_CASE("memory can be freed during a prefetch of it", "[system]") {
  Stage& s = stage();
  CUstream stream = nullptr;
  WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 20; ++round) {
    Words words{8 * mib_words};
    words[0] = words[words.size() - 1] = 9;
    prefetch(words.data(), words.bytes(), round % 2 == 0 ? device0 : host, stream);
    words.free();
    const Words next{8 * mib_words};
    CHECK(next[0] == 0);
    CHECK(next[next.size() - 1] == 0);
  }
  WHERRY_TRY(cuStreamDestroy(stream));
  CHECK(s.witness().pool_bytes(1) <= std::uint64_t{64} << 20);
}

}  // namespace wherry::test::prefetch_residency_test
