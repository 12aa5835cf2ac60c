// Where pages are after copies and fills, checked against Linux's view of the pools.
#include <vector>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::copy_test {

namespace {

Stage& stage() {
  static Stage the_stage{"capacity=64M;capacity=64M"};
  return the_stage;
}

void copy(const void* to, const void* from, std::size_t bytes) {
  WHERRY_TRY(cuMemcpy(address_of(to), address_of(from), bytes));
}

}  // namespace

TEST_CASE("copies and fills leave pages in the pools where they are", "[system]") {
  stage();
  const Words words{4 * page_words};
  const auto data = numbered(4 * page_words);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    stage().write(i % (2 * page_words) == 0 ? host : device1, &words[i], 1);
  std::vector<std::uint32_t> before;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    before.push_back(stage().residents(&words[i]));
  copy(words.data(), data.data(), words.bytes());
  std::vector<std::uint64_t> back(data.size());
  copy(back.data(), words.data(), words.bytes());
  CHECK(back == data);
  WHERRY_TRY(cuMemsetD8(address_of(words.data()), 7, 100));
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(stage().residents(&words[i * page_words]) == before[i]);
  CHECK(words[20] == 21);
  CHECK(words[0] == 0x0707070707070707);
}

TEST_CASE("a processor that has a page mapped sees what a copy writes, without a fault",
          "[system]") {
  stage();
  const Words words{page_words};
  stage().write(device0, &words[0], 1);
  const std::uint64_t value = 42;
  copy(&words[1], &value, sizeof value);
  CHECK(stage().read(device0, &words[1]) == 42);
  CHECK(stage().residents(&words[0]) == bit_of(device0));
}

TEST_CASE("reading memory that does not exist gives zeros and creates nothing", "[system]") {
  stage();
  const Words words{1024 * page_words};
  std::vector<std::uint64_t> back(words.size(), 9);
  copy(back.data(), words.data(), words.bytes());
  CHECK(back == std::vector<std::uint64_t>(words.size()));
  for (std::size_t i = 0; i < words.size(); i += page_words)
    REQUIRE(stage().residents(&words[i]) == 0);
}

TEST_CASE(
    "pages that a copy creates are at their preferred location, or else where the copy's role says",
    "[system]") {
  stage();
  const Words words{4 * region_words};
  const auto data = numbered(page_words);
  advise(&words[3 * region_words], region_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  copy(&words[0], data.data(), page_bytes);
  CHECK(stage().residents(&words[0]) == bit_of(device0));
  CHECK(stage().residents(&words[page_words]) == 0);
  CUdeviceptr source = 0;
  WHERRY_TRY(cuMemAlloc(&source, page_bytes));
  WHERRY_TRY(cuMemcpyDtoH(&words[region_words], source, page_bytes));
  CHECK(stage().residents(&words[region_words]) == bit_of(host));
  WHERRY_TRY(cuMemsetD32(address_of(&words[2 * region_words]), 3, 10));
  CHECK(stage().residents(&words[2 * region_words]) == bit_of(device0));
  copy(&words[3 * region_words], data.data(), page_bytes);
  CHECK(stage().residents(&words[3 * region_words]) == bit_of(device1));
  CHECK(words[2 * region_words] == 0x0000000300000003);
  WHERRY_TRY(cuMemFree(source));
}

TEST_CASE(
    "read-mostly pages keep their copies when a copy reads them, and lose them when it writes",
    "[system]") {
  stage();
  const Words words{page_words};
  stage().write(host, &words[0], 5);
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  CHECK(stage().read(device0, &words[0]) == 5);
  CHECK(stage().read(device1, &words[0]) == 5);
  const std::uint32_t all = bit_of(host) | bit_of(device0) | bit_of(device1);
  REQUIRE(stage().residents(&words[0]) == all);
  std::uint64_t seen = 0;
  copy(&seen, &words[0], sizeof seen);
  CHECK(seen == 5);
  CHECK(stage().residents(&words[0]) == all);
  seen = 6;
  copy(&words[0], &seen, sizeof seen);
  CHECK(stage().residents(&words[0]) == bit_of(device0));
  for (const int processor : {host, device0, device1})
    CHECK(stage().read(processor, &words[0]) == 6);
}

TEST_CASE("device memory is written and read by copies, and by its kernels", "[system]") {
  stage();
  CUdeviceptr memory = 0;
  constexpr std::size_t count = 3 * mebibyte / 8;
  WHERRY_TRY(cuMemAlloc(&memory, 3 * mebibyte));
  const auto data = numbered(count);
  WHERRY_TRY(cuMemcpyHtoD(memory, data.data(), 3 * mebibyte));
  stage().session().run(device0, [first = reinterpret_cast<std::uint64_t*>(memory)] {
    for (std::size_t i = 0; i < count; ++i) first[i] *= 2;
  });
  std::vector<std::uint64_t> back(count);
  WHERRY_TRY(cuMemcpyDtoH(back.data(), memory, 3 * mebibyte));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (back[i] != 2 * data[i]) ++wrong;
  CHECK(wrong == 0);
  WHERRY_TRY(cuMemFree(memory));
}

}  // namespace wherry::test::copy_test
