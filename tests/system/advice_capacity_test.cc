// Read copies and remote mappings on devices that can hold only a fraction of the memory: contents
// stay right, no pool ever exceeds its capacity, and processors advised to access pages still have
// them mapped after the pages were evicted.
#include <algorithm>
#include <bit>
#include <random>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::advice_capacity_test {

namespace {

constexpr std::size_t capacity = std::size_t{2} << 20;
constexpr std::size_t many_words = 4 * capacity / sizeof(std::uint64_t);

Stage& stage() {
  static Stage the_stage{"capacity=2M;capacity=2M"};
  return the_stage;
}

void check_capacity() {
  for (const int device : {device0, device1})
    CHECK(stage().witness().used_bytes(1 + device) <= capacity);
}

// Writes seed + i to page i.
void number_pages(const Words& words, std::uint64_t seed) {
  for (std::size_t i = 0; i < words.size(); i += page_words) words[i] = seed + i / page_words;
}

std::uint64_t sum_of_numbers(const Words& words, std::uint64_t seed) {
  const std::uint64_t pages = words.size() / page_words;
  return pages * seed + pages * (pages - 1) / 2;
}

}  // namespace

TEST_CASE("a device reads far more read-mostly memory than it holds, and the originals stay",
          "[system]") {
  Stage& s = stage();
  const Words words{many_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  number_pages(words, 1000);
  const std::uint64_t before = read_stats().processor[1].evicted;
  for (int round = 0; round < 3; ++round) {
    for (const int reader : {device0, device1}) {
      CHECK(s.read_pages(reader, words.data(), words.bytes()) == sum_of_numbers(words, 1000));
      check_capacity();
    }
  }
  CHECK(read_stats().processor[1].evicted > before);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    REQUIRE((s.residents(&words[i]) & bit_of(host)) != 0);
  CHECK(s.read_pages(host, words.data(), words.bytes()) == sum_of_numbers(words, 1000));
}

TEST_CASE("a copy that is evicted is dropped, not migrated to the host", "[system]") {
  Stage& s = stage();
  const Words words{many_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  number_pages(words, 1);
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == sum_of_numbers(words, 1));
  const wherryStats before = read_stats();
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == sum_of_numbers(words, 1));
  const wherryStats after = read_stats();
  CHECK(after.processor[1].evicted > before.processor[1].evicted);
  CHECK(after.processor[0].bytes_copied == before.processor[0].bytes_copied);
}

TEST_CASE("writes to copies under eviction leave one copy each, the latest", "[system]") {
  Stage& s = stage();
  const Words words{many_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  number_pages(words, 0);
  std::uint64_t value = 1;
  for (const int writer : {device0, host, device1}) {
    CHECK(s.read_pages(writer, words.data(), words.bytes()) ==
          (value == 1 ? sum_of_numbers(words, 0) : value * (words.size() / page_words)));
    s.write_pages(writer, words.data(), words.bytes(), ++value);
    check_capacity();
    for (std::size_t i = 0; i < words.size(); i += page_words)
      REQUIRE(std::popcount(s.residents(&words[i])) == 1);
  }
  CHECK(s.read_pages(host, words.data(), words.bytes()) == value * (words.size() / page_words));
}

TEST_CASE("a preferred device that is full evicts, and its remote users see the pages move",
          "[system]") {
  Stage& s = stage();
  const Words words{many_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  for (std::uint64_t value = 1; value <= 3; ++value) {
    for (const int writer : {host, device1, device0}) {
      s.write_pages(writer, words.data(), words.bytes(), value);
      check_capacity();
      for (const int reader : {device0, host, device1})
        CHECK(s.read_pages(reader, words.data(), words.bytes()) ==
              value * (words.size() / page_words));
    }
  }
}

TEST_CASE("evicted pages are mapped again by the processors that are advised to access them",
          "[system]") {
  Stage& s = stage();
  const Words followed{capacity / 4 / sizeof(std::uint64_t)};
  advise(followed, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  s.write_pages(device0, followed.data(), followed.bytes(), 5);
  REQUIRE(s.residents(followed.data()) == bit_of(device0));
  REQUIRE(s.comes_to_map(device1, followed.data()));
  const Words ballast{many_words};
  s.write_pages(device0, ballast.data(), ballast.bytes(), 1);
  for (std::size_t i = 0; i < followed.size(); i += page_words) {
    REQUIRE(s.residents(&followed[i]) == bit_of(host));
    REQUIRE(s.comes_to_map(device1, &followed[i]));
  }
  const std::uint64_t before = Stage::faults();
  CHECK(s.read_pages(device1, followed.data(), followed.bytes()) ==
        5 * (followed.size() / page_words));
  CHECK(Stage::faults() == before);
  CHECK(followed[0] == 5);  // the host maps evicted memory at its next access
  CHECK(s.same_frame(host, device1, followed.data()));
  check_capacity();
}

TEST_CASE("all kinds of advice on more memory than fits: every page keeps its value", "[system]") {
  Stage& s = stage();
  const Words words{many_words};
  std::mt19937_64 random{seed()};
  std::vector<std::uint64_t> model(words.size() / page_words, 0);
  constexpr CUmem_advise all[] = {
      CU_MEM_ADVISE_SET_READ_MOSTLY,        CU_MEM_ADVISE_UNSET_READ_MOSTLY,
      CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
      CU_MEM_ADVISE_SET_ACCESSED_BY,        CU_MEM_ADVISE_UNSET_ACCESSED_BY};
  for (std::uint64_t round = 1; round <= scaled(60); ++round) {
    const std::size_t first = random() % model.size();
    const std::size_t count = 1 + random() % (model.size() - first);
    std::uint64_t* const start = &words[first * page_words];
    advise(start, count * page_bytes, all[random() % std::size(all)],
           static_cast<int>(random() % 3) - 1);
    const int writer = static_cast<int>(random() % 3) - 1;
    const std::size_t written = 1 + random() % std::min<std::size_t>(count, 100);
    s.write_pages(writer, start, written * page_bytes, round);
    std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(first), written, round);
    std::uint64_t sum = 0;
    for (const std::uint64_t value : model) sum += value;
    CHECK(s.read_pages(static_cast<int>(random() % 3) - 1, words.data(), words.bytes()) == sum);
    check_capacity();
  }
  for (std::size_t i = 0; i < model.size(); ++i) REQUIRE(words[i * page_words] == model[i]);
}

}  // namespace wherry::test::advice_capacity_test
