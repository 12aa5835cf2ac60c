// Pinned memory stays in the pool where it is, whichever processor accesses it and whatever the
// advice.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::pin_test {

namespace {

Stage& stage() {
  static Stage the_stage("capacity=8M,workers=1;capacity=8M,workers=1");
  return the_stage;
}

void pin(const Words& words) {
  WHERRY_TRY(wherryPinPages(address_of(words), words.bytes()));
}

// Counts the pages that are in exactly the pools of `residents`.
std::size_t count_pages(const Words& words, std::uint32_t residents) {
  std::size_t pages = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    pages += stage().residents(words.data() + i) == residents;
  return pages;
}

}  // namespace

TEST_CASE("pinned pages stay where they are, and others map them there", "[system]") {
  for (const int home : {host, device0, device1}) {
    CAPTURE(home);
    const Words words((stage(), 4 * region_words));
    stage().write_pages(home, words.data(), words.bytes(), 5);
    pin(words);
    for (const int faulting_processor : {device0, host, device1, device0}) {
      CAPTURE(faulting_processor);
      CHECK(stage().read_pages(faulting_processor, words.data(), words.bytes()) ==
            5 * words.bytes() / page_bytes);
      stage().write(faulting_processor, words.data() + 1,
                    40u + static_cast<unsigned>(faulting_processor));
      CHECK(stage().read(home, words.data() + 1) ==
            40u + static_cast<unsigned>(faulting_processor));
      CHECK(count_pages(words, bit_of(home)) == words.bytes() / page_bytes);
      CHECK(stage().same_frame(home, faulting_processor, words.data()));
    }
  }
}

// How many blocks khugepaged has merged: Linux does so whatever is pinned (held-pages.md).
std::uint64_t merged_by_linux() {
  std::uint64_t blocks = 0;
  std::ifstream("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed") >> blocks;
  return blocks;
}

std::vector<std::uint64_t> frames_of(const Words& words) {
  // Reads the pages, so that they have entries: khugepaged removes these even if it merges nothing.
  (void)stage().read_pages(host, words.data(), words.bytes());
  std::vector<std::uint64_t> frames;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    frames.push_back(stage().frame_of(host, words.data() + i));
  return frames;
}

// When all parts of a block have come, Wherry makes one huge page of them 50 ms later.
TEST_CASE("pinned pages keep their frames in blocks that came in parts", "[system]") {
  constexpr std::size_t blocks = 8;
  bool alone = false;
  for (int attempt = 0; attempt < 10 && !alone; ++attempt) {
    const Words words((stage(), blocks * 32 * region_words));
    stage().write_pages(host, words.data(), words.bytes(), 5);
    pin(words);
    const std::uint64_t merged = merged_by_linux();
    const std::vector<std::uint64_t> frames = frames_of(words);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const std::vector<std::uint64_t> later = frames_of(words);
    // khugepaged counts a block after it has merged it, and has a low priority.
    if (frames != later) std::this_thread::sleep_for(std::chrono::seconds(1));
    alone = merged_by_linux() == merged;
    if (alone) CHECK(frames == later);
  }
  CHECK(alone);
}

TEST_CASE("pinning creates missing pages where a host access would create them", "[system]") {
  const Words anywhere((stage(), 2 * region_words));
  const Words preferred(2 * region_words);
  advise(preferred, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  pin(anywhere);
  pin(preferred);
  CHECK(count_pages(anywhere, bit_of(host)) == anywhere.bytes() / page_bytes);
  CHECK(count_pages(preferred, bit_of(device1)) == preferred.bytes() / page_bytes);
  CHECK(stage().read_pages(device0, anywhere.data(), anywhere.bytes()) == 0);
  CHECK(stage().read_pages(host, preferred.data(), preferred.bytes()) == 0);
  CHECK(count_pages(anywhere, bit_of(host)) == anywhere.bytes() / page_bytes);
}

TEST_CASE(
    "a pinned page has one copy: the host's, or else that of the device with the lowest number",
    "[system]") {
  const Words with_host((stage(), region_words));
  const Words without(region_words);
  for (const Words* words : {&with_host, &without}) {
    stage().write_pages(device1, words->data(), words->bytes(), 3);
    advise(*words, CU_MEM_ADVISE_SET_READ_MOSTLY);
    stage().read_pages(device0, words->data(), words->bytes());
  }
  stage().read_pages(host, with_host.data(), with_host.bytes());
  CHECK(stage().residents(without.data()) == (bit_of(device0) | bit_of(device1)));
  pin(with_host);
  pin(without);
  CHECK(count_pages(with_host, bit_of(host)) == with_host.bytes() / page_bytes);
  CHECK(count_pages(without, bit_of(device0)) == without.bytes() / page_bytes);
  // Reads create no new copies either.
  for (const int reader : {host, device0, device1}) {
    CHECK(stage().read_pages(reader, without.data(), without.bytes()) ==
          3 * without.bytes() / page_bytes);
    CHECK(stage().residents(without.data()) == bit_of(device0));
  }
  WHERRY_TRY(wherryUnpinPages(address_of(without), without.bytes()));
  stage().read_pages(device1, without.data(), without.bytes());
  stage().read_pages(host, without.data(), without.bytes());
  stage().write(host, without.data(), 1);
  CHECK(stage().read(device1, without.data()) == 1);
}

TEST_CASE("advice does not move pinned pages, and takes effect when they are unpinned",
          "[system]") {
  const Words words((stage(), region_words));
  stage().write_pages(device0, words.data(), words.bytes(), 2);
  pin(words);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  stage().write(device1, words.data(), 7);
  CHECK(stage().read(host, words.data()) == 7);
  CHECK(stage().residents(words.data()) == bit_of(device0));
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  CHECK(stage().read(device1, words.data()) == 7);
  CHECK(stage().residents(words.data()) == bit_of(device0));
  advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
  WHERRY_TRY(wherryUnpinPages(address_of(words), words.bytes()));
  advise(words, CU_MEM_ADVISE_UNSET_ACCESSED_BY, host);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  stage().write(device1, words.data(), 8);
  CHECK(stage().residents(words.data()) == bit_of(device1));
}

TEST_CASE("eviction skips pinned pages", "[system]") {
  const Words pinned((stage(), 3 * mebibyte / sizeof(std::uint64_t)));
  stage().write_pages(device0, pinned.data(), pinned.bytes(), 6);
  pin(pinned);
  const Words others(24 * mebibyte / sizeof(std::uint64_t));
  for (std::uint64_t pass = 1; pass <= 2; ++pass) {
    stage().write_pages(device0, others.data(), others.bytes(), pass);
    CHECK(count_pages(pinned, bit_of(device0)) == pinned.bytes() / page_bytes);
    CHECK(stage().witness().used_bytes(1) <= 8 * mebibyte);
  }
  CHECK(stage().read_pages(host, others.data(), others.bytes()) == 2 * others.bytes() / page_bytes);
  CHECK(stage().read_pages(host, pinned.data(), pinned.bytes()) == 6 * pinned.bytes() / page_bytes);
  CHECK(count_pages(pinned, bit_of(device0)) == pinned.bytes() / page_bytes);
}

TEST_CASE("a pool full of pinned pages takes no others, and its device maps pages remotely",
          "[system]") {
  const Words pinned((stage(), 8 * mebibyte / sizeof(std::uint64_t)));
  advise(pinned, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  pin(pinned);
  CHECK(count_pages(pinned, bit_of(device0)) == pinned.bytes() / page_bytes);
  const Words others(mebibyte / sizeof(std::uint64_t));
  stage().write_pages(device0, others.data(), others.bytes(), 4);
  CHECK(count_pages(others, bit_of(host)) == others.bytes() / page_bytes);
  CHECK(stage().read_pages(host, others.data(), others.bytes()) == 4 * others.bytes() / page_bytes);
  // Pages that prefer the full device are created and pinned at the host.
  const Words more(region_words);
  advise(more, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  pin(more);
  CHECK(count_pages(more, bit_of(host)) == more.bytes() / page_bytes);
}

TEST_CASE("part of an allocation can be pinned, rounded out to whole pages, and pinned twice",
          "[system]") {
  const Words words((stage(), region_words));
  const CUdeviceptr first = address_of(words);
  stage().write_pages(device0, words.data(), words.bytes(), 1);
  WHERRY_TRY(
      wherryPinPages(first + 2 * page_bytes + 100, page_bytes));  // covers parts of pages 2 and 3
  WHERRY_TRY(wherryPinPages(first + 2 * page_bytes, 1));
  CHECK(stage().read_pages(host, words.data(), words.bytes()) == words.bytes() / page_bytes);
  for (std::size_t page = 0; page < 16; ++page) {
    const bool stays = page == 2 || page == 3;
    CHECK(stage().residents(words.data() + page * page_words) == bit_of(stays ? device0 : host));
  }
  WHERRY_TRY(wherryUnpinPages(first + 2 * page_bytes, page_bytes));
  stage().write_pages(device1, words.data(), words.bytes(), 2);
  CHECK(stage().residents(words.data() + 3 * page_words) == bit_of(device0));
  CHECK(stage().residents(words.data() + 2 * page_words) == bit_of(device1));
}

TEST_CASE("an invalid range cannot be pinned, and freeing unpins", "[system]") {
  Words words((stage(), region_words));
  const CUdeviceptr first = address_of(words);
  int on_the_stack = 0;
  for (const auto call : {wherryPinPages, wherryUnpinPages}) {
    CHECK(call(first, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(first, words.bytes() + 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(first, ~std::size_t{0}) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(first - 1, 2) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(0, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(reinterpret_cast<CUdeviceptr>(&on_the_stack), 4) == CUDA_ERROR_INVALID_VALUE);
  }
  pin(words);
  words.free();
  CHECK(wherryPinPages(first, 1) == CUDA_ERROR_INVALID_VALUE);
  const Words fresh(region_words);
  stage().write(device0, fresh.data(), 1);
  stage().write(host, fresh.data(), 2);
  CHECK(stage().residents(fresh.data()) == bit_of(host));
}

TEST_CASE("pages are pinned and unpinned while all processors write them, and nothing is lost",
          "[system]") {
  const Words words((stage(), 2 * region_words));
  const std::size_t rounds = scaled(200);
  std::mt19937_64 random(seed());
  // Each processor writes its own words on every page.
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const int device : {device0, device1}) {
      stage().session().launch(device, 1, [data = words.data(), device](std::size_t) {
        for (std::size_t page = 0; page < 32; ++page)
          data[page * page_words + 1 + static_cast<std::size_t>(device)] += 1;
      });
    }
    const CUdeviceptr at = address_of(words) + random() % words.bytes();
    WHERRY_TRY(random() % 2 == 0 ? wherryPinPages(at, 1) : wherryUnpinPages(at, 1));
    for (std::size_t page = 0; page < 32; ++page) words[page * page_words] += 1;
  }
  WHERRY_TRY(stage().session().wait(device0));
  WHERRY_TRY(stage().session().wait(device1));
  std::size_t wrong = 0;
  for (std::size_t page = 0; page < 32; ++page)
    for (std::size_t writer = 0; writer < 3; ++writer)
      wrong += words[page * page_words + writer] != rounds;
  CHECK(wrong == 0);
}

}  // namespace wherry::test::pin_test
