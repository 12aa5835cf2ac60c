// Range attributes of memory in use, and effects of advice on parts of a range only.
// api/advice_test.cc tests results and argument errors.
#include <vector>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::range_attributes_test {

namespace {

Stage& stage() {
  static Stage the_stage{"capacity=64M;capacity=64M"};
  return the_stage;
}

int attribute(const std::uint64_t* first, std::size_t bytes, CUmem_range_attribute attribute) {
  int value = -77;
  WHERRY_TRY(cuMemRangeGetAttribute(&value, sizeof value, attribute,
                                    reinterpret_cast<CUdeviceptr>(first), bytes));
  return value;
}

std::vector<int> accessed_by(const Words& words) {
  std::vector<int> all(3);
  WHERRY_TRY(cuMemRangeGetAttribute(all.data(), all.size() * sizeof(int),
                                    CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                    reinterpret_cast<CUdeviceptr>(words.data()), words.bytes()));
  return all;
}

}  // namespace

TEST_CASE("the actual location of the pages may be different from the preferred one", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(host, words.data(), 1);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  s.write(device0, words.data(), 2);
  CHECK(s.residents(words.data()) == bit_of(device0));
  CHECK(attribute(words.data(), words.bytes(), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) ==
        device1);
}

TEST_CASE("attributes report the advice, not its effect", "[system]") {
  Stage& s = stage();
  const Words words{2 * region_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  for (const int faulting_processor : {host, device0, device1}) {
    s.write(faulting_processor, words.data(), 1);
    CHECK(attribute(words.data(), words.bytes(), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 1);
    CHECK(accessed_by(words) == std::vector<int>{-1, -2, -2});
  }
}

TEST_CASE("querying attributes accesses no page", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  const std::uint64_t before = Stage::faults();
  CHECK(attribute(words.data(), words.bytes(), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  CHECK(attribute(words.data(), words.bytes(), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) ==
        device0);
  check_page(s, words.data(), 0, 0);
  CHECK(Stage::faults() == before);
}

TEST_CASE("advice on a part of a region splits it: each part has its own effect", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  std::uint64_t* const copied = words.data();
  std::uint64_t* const preferred = &words[4 * page_words];
  std::uint64_t* const accessed = &words[8 * page_words];
  std::uint64_t* const plain = &words[12 * page_words];
  s.write_pages(host, words.data(), words.bytes(), 1);
  advise(copied, 4 * page_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY);
  advise(preferred, 4 * page_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  advise(accessed, 4 * page_bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device0);

  for (std::uint64_t* const word : {accessed, copied, plain, preferred})
    CHECK(s.read(device0, word) == 1);
  CHECK(s.residents(copied) == (bit_of(host) | bit_of(device0)));
  CHECK(s.residents(preferred) == bit_of(host));
  CHECK(s.residents(accessed) == bit_of(host));
  CHECK(s.residents(plain) == bit_of(device0));
  CHECK(s.residents(plain - page_words) == bit_of(host));
  CHECK(attribute(words.data(), words.bytes(), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);
  CHECK(accessed_by(words) == std::vector<int>{-2, -2, -2});
}

TEST_CASE("equal neighbours merge: one fault brings pages that two calls of cuMemAdvise named",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write_pages(host, words.data(), words.bytes(), 1);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    advise(&words[i], page_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY);
  const std::uint64_t before = Stage::faults(device0);
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == 16);
  CHECK(Stage::faults(device0) == before + 1);
}

TEST_CASE("each page has all advice that covers it", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words.data(), 10 * page_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  advise(&words[6 * page_words], 10 * page_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY);
  s.write_pages(device0, words.data(), words.bytes(), 1);
  CHECK(s.read_pages(host, words.data(), words.bytes()) == 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    CHECK(s.residents(&words[i * page_words]) ==
          (i < 6 ? bit_of(device1) : bit_of(device0) | bit_of(host)));
  }
}

TEST_CASE("freeing memory removes its advice", "[system]") {
  Stage& s = stage();
  for (int round = 0; round < 8; ++round) {
    const Words words{region_words};
    CHECK(attribute(words.data(), words.bytes(), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);
    CHECK(accessed_by(words) == std::vector<int>{-2, -2, -2});
    s.write(host, words.data(), 1);
    CHECK(s.read(device0, words.data()) == 1);
    CHECK(s.residents(words.data()) == bit_of(device0));
    advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
    advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  }
}

}  // namespace wherry::test::range_attributes_test
