// Effects of prefetches and discards on pages, by Linux's view.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::prefetch_test {

namespace {

Stage& stage() {
  // "arriving": the library merges no pages in the background after a prefetch.
  static Stage the_stage("capacity=64M,workers=1;capacity=64M,workers=1", "WHERRY_HUGE_PAGES",
                         "arriving");
  return the_stage;
}

// Prefetches all words, and waits.
void prefetch(const Words& words, int to) {
  const CUstream stream = stage().session().stream(0);
  WHERRY_TRY(cuMemPrefetchAsync(address_of(words), words.bytes(), location_of(to), 0, stream));
  WHERRY_TRY(cuStreamSynchronize(stream));
}
void discard(const Words& words) {
  CUdeviceptr first = address_of(words);
  std::size_t size = words.bytes();
  WHERRY_TRY(cuMemDiscardBatchAsync(&first, &size, 1, 0, stage().session().stream(0)));
  WHERRY_TRY(stage().session().wait(0));
}

// Counts the pages that are in exactly the pools of `residents`; and those that exactly `mappers`
// map.
std::size_t count_resident(const Words& words, std::uint32_t residents) {
  std::size_t pages = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    pages += stage().residents(words.data() + i) == residents;
  return pages;
}
std::size_t count_mapped(const Words& words, std::uint32_t mappers) {
  std::size_t pages = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    pages += stage().witness().mappers(words.data() + i) == mappers;
  return pages;
}
std::size_t pages_of(const Words& words) {
  return words.bytes() / page_bytes;
}

void fill(const Words& words, std::uint64_t value) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = value + i;
}
std::size_t count_wrong(const Words& words, std::uint64_t value) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != value + i;
  return wrong;
}

}  // namespace

TEST_CASE("pages move to the destination and are mapped there alone", "[system]") {
  // More than one block, but not a multiple of a block.
  const Words words((stage(), (5 * mebibyte + 3 * page_bytes) / sizeof(std::uint64_t)));
  fill(words, 7);
  for (const int to : {device0, device1, host, device1, device0, host}) {
    CAPTURE(to);
    prefetch(words, to);
    CHECK(count_resident(words, bit_of(to)) == pages_of(words));
    CHECK(count_mapped(words, bit_of(to)) == pages_of(words));
    if (to != host) CHECK(stage().read(to, words.data() + 5) == 12);
  }
  CHECK(count_wrong(words, 7) == 0);
}

TEST_CASE("untouched memory is populated and mapped at the destination", "[system]") {
  for (const int to : {host, device0, device1}) {
    CAPTURE(to);
    const Words words((stage(), 3 * mebibyte / sizeof(std::uint64_t)));
    prefetch(words, to);
    CHECK(count_resident(words, bit_of(to)) == pages_of(words));
    CHECK(count_mapped(words, bit_of(to)) == pages_of(words));
    const std::uint64_t before = Stage::faults(to);
    CHECK(stage().read_pages(to, words.data(), words.bytes()) == 0);
    CHECK(Stage::faults(to) == before);
  }
}

TEST_CASE("prefetching read-mostly memory makes a copy at the destination", "[system]") {
  const Words words((stage(), 3 * mebibyte / sizeof(std::uint64_t)));
  fill(words, 3);
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  prefetch(words, device0);
  CHECK(count_resident(words, bit_of(host) | bit_of(device0)) == pages_of(words));
  prefetch(words, device1);
  CHECK(count_resident(words, bit_of(host) | bit_of(device0) | bit_of(device1)) == pages_of(words));
  stage().write(device1, words.data(), 3);
  CHECK(stage().residents(words.data()) == bit_of(device1));
  CHECK(count_wrong(words, 3) == 0);
}

TEST_CASE("a preferred location does not prevent prefetching", "[system]") {
  const Words words((stage(), 2 * mebibyte / sizeof(std::uint64_t)));
  fill(words, 1);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  prefetch(words, device0);
  CHECK(count_resident(words, bit_of(device0)) == pages_of(words));
  prefetch(words, device1);
  CHECK(count_resident(words, bit_of(device1)) == pages_of(words));
  CHECK(count_wrong(words, 1) == 0);
}

TEST_CASE("the mappings of processors that are advised to access prefetched pages follow",
          "[system]") {
  const Words words((stage(), 2 * mebibyte / sizeof(std::uint64_t)));
  fill(words, 1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  for (const int to : {device0, host, device0}) {
    CAPTURE(to);
    prefetch(words, to);
    CHECK(count_resident(words, bit_of(to)) == pages_of(words));
    for (std::size_t i = 0; i < words.size(); i += region_words) {
      REQUIRE(stage().comes_to_map(device1, words.data() + i));
      REQUIRE(stage().same_frame(to, device1, words.data() + i));
    }
  }
}

TEST_CASE("discarded pages hold what is written after the discard", "[system]") {
  const Words words((stage(), 2 * mebibyte / sizeof(std::uint64_t)));
  for (const int writer : {host, device0, device1}) {
    stage().write_pages(device0, words.data(), words.bytes(), 1);
    discard(words);
    stage().write_pages(writer, words.data(), words.bytes(), 9);
    for (const int reader : {host, device1, device0})
      CHECK(stage().read_pages(reader, words.data(), words.bytes()) == 9 * pages_of(words));
  }
}

TEST_CASE("prefetches and discards skip pinned pages", "[system]") {
  const Words words((stage(), 3 * mebibyte / sizeof(std::uint64_t)));
  fill(words, 5);
  const std::size_t first = 100;
  const std::size_t count = 50;
  WHERRY_TRY(wherryPinPages(address_of(words) + first * page_bytes, count * page_bytes));
  prefetch(words, device0);
  CHECK(count_resident(words, bit_of(host)) == count);
  CHECK(count_resident(words, bit_of(device0)) == pages_of(words) - count);
  CHECK(stage().residents(words.data() + first * page_words) == bit_of(host));
  CHECK(count_wrong(words, 5) == 0);
  discard(words);
  std::size_t wrong = 0;
  for (std::size_t i = first * page_words; i < (first + count) * page_words; ++i)
    wrong += words[i] != 5 + i;
  CHECK(wrong == 0);
  CHECK(stage().residents(words.data() + first * page_words) == bit_of(host));
}

TEST_CASE("memory that is prefetched back and forth loses no concurrent write", "[system]") {
  const Words words((stage(), 8 * mebibyte / sizeof(std::uint64_t)));
  const std::size_t pages = pages_of(words);
  const CUstream stream = stage().session().stream(1);
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> written(pages);
  std::thread writer([&] {
    std::mt19937_64 random(seed());
    while (!stop) {
      const std::size_t page = random() % pages;
      words[page * page_words + 3] += 1;
      ++written[page];
    }
  });
  for (std::size_t round = 0; round < scaled(40); ++round) {
    const int to = static_cast<int>(round % 3) - 1;
    WHERRY_TRY(cuMemPrefetchAsync(address_of(words), words.bytes(), location_of(to), 0, stream));
    stage().session().launch(device1, 1, [data = words.data(), pages](std::size_t) {
      for (std::size_t page = 0; page < pages; page += 7) data[page * page_words + 4] += 1;
    });
    if (round % 4 == 3) WHERRY_TRY(cuStreamSynchronize(stream));
  }
  WHERRY_TRY(cuStreamSynchronize(stream));
  stop = true;
  writer.join();
  std::size_t wrong = 0;
  for (std::size_t page = 0; page < pages; ++page) {
    wrong += words[page * page_words + 3] != written[page];
    wrong += words[page * page_words + 4] != (page % 7 == 0 ? scaled(40) : 0);
  }
  CHECK(wrong == 0);
}

}  // namespace wherry::test::prefetch_test
