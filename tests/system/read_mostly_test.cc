// Tests each sentence of the read-mostly contract against Linux's pools and page tables.
#include <array>
#include <bit>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::read_mostly_test {

namespace {

constexpr std::array processors{host, device0, device1};
constexpr std::uint32_t everybody = bit_of(host) | bit_of(device0) | bit_of(device1);

Stage& stage() {
  static Stage the_stage{"capacity=64M;capacity=64M"};
  return the_stage;
}

// Makes the pages read-mostly and written by `owner`; no other processor has accessed them.
void write_read_mostly(const Words& words, int owner, std::uint64_t value) {
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  stage().write_pages(owner, words.data(), words.bytes(), value);
}

void read_everywhere(const Words& words) {
  for (const int reader : processors) stage().read_pages(reader, words.data(), words.bytes());
}

}  // namespace

TEST_CASE("a read access from any processor creates a read-only copy in that processor's memory",
          "[system]") {
  Stage& s = stage();
  for (const int owner : processors) {
    CAPTURE(owner);
    const Words words{2 * region_words};
    write_read_mostly(words, owner, 5);
    check_page(s, words.data(), bit_of(owner), bit_of(owner));
    std::uint32_t holders = bit_of(owner);
    for (const int reader : processors) {
      CHECK(s.read(reader, words.data()) == 5);
      holders |= bit_of(reader);
      check_page(s, words.data(), holders, std::popcount(holders) > 1 ? 0 : holders);
    }
    // No processor read that page.
    CHECK(s.residents(words.data() + region_words) == bit_of(owner));
    CHECK(s.different_frames(host, device0, words.data()));
    CHECK(s.different_frames(host, device1, words.data()));
    CHECK(s.different_frames(device0, device1, words.data()));
  }
}

TEST_CASE("a read creates a copy of at least the accessed pages", "[system]") {
  Stage& s = stage();
  const Words words{4 * region_words};
  write_read_mostly(words, host, 1);
  // Reads every second page, in one kernel.
  s.session().run(device0, [first = words.data(), pages = words.bytes() / page_bytes] {
    for (std::size_t i = 0; i < pages; i += 2)
      (void)*const_cast<const volatile std::uint64_t*>(first + i * page_words);
  });
  for (std::size_t i = 0; i < words.size(); i += 2 * page_words)
    CHECK(s.residents(&words[i]) == (bit_of(host) | bit_of(device0)));
}

TEST_CASE("untouched memory is zero for each reader, and each reader has its copy", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  std::uint32_t holders = 0;
  for (const int reader : {device1, host, device0}) {
    CHECK(s.read(reader, words.data()) == 0);
    holders |= bit_of(reader);
    check_page(s, words.data(), holders, std::popcount(holders) > 1 ? 0 : holders);
  }
}

TEST_CASE("once every reader has its copy, reads cause no faults", "[system]") {
  Stage& s = stage();
  const Words words{8 * region_words};
  write_read_mostly(words, device1, 3);
  read_everywhere(words);
  const std::uint64_t before = Stage::faults();
  for (int round = 0; round < 3; ++round)
    for (const int reader : processors)
      CHECK(s.read_pages(reader, words.data(), words.bytes()) == 3 * words.size() / page_words);
  CHECK(Stage::faults() == before);
}

TEST_CASE("a write invalidates all copies of the page except the writer's", "[system]") {
  Stage& s = stage();
  for (const int writer : processors) {
    CAPTURE(writer);
    const Words words{2 * region_words};
    write_read_mostly(words, host, 7);
    read_everywhere(words);
    s.write(writer, &words[page_words], 8);
    check_page(s, &words[page_words], bit_of(writer), bit_of(writer));
    // Pages that no processor wrote, and that are not next to a written one, keep their copies.
    check_page(s, &words[region_words], everybody, 0);
    for (const int reader : processors) {
      CHECK(s.read(reader, &words[page_words]) == 8);
      CHECK(s.read(reader, words.data()) == 7);
    }
    check_page(s, &words[page_words], everybody, 0);
  }
}

TEST_CASE("a writing processor without a copy has the only copy afterwards", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  write_read_mostly(words, host, 7);
  CHECK(s.read(device0, words.data()) == 7);
  s.write(device1, &words[1], 9);
  check_page(s, words.data(), bit_of(device1), bit_of(device1));
  CHECK(s.read(device0, words.data()) == 7);
  CHECK(s.read(device0, &words[1]) == 9);
}

TEST_CASE("the location argument is ignored for read-mostly", "[system]") {
  Stage& s = stage();
  for (const CUmemLocation& where :
       {CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, 99}, CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 7},
        CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA, 9999}}) {
    const Words words{region_words};
    const auto address = reinterpret_cast<CUdeviceptr>(words.data());
    WHERRY_TRY(cuMemAdvise(address, words.bytes(), CU_MEM_ADVISE_SET_READ_MOSTLY, where));
    s.write(host, words.data(), 4);
    CHECK(s.read(device1, words.data()) == 4);
    check_page(s, words.data(), bit_of(host) | bit_of(device1), 0);
    WHERRY_TRY(cuMemAdvise(address, words.bytes(), CU_MEM_ADVISE_UNSET_READ_MOSTLY, where));
    CHECK(std::popcount(s.residents(words.data())) == 1);
  }
}

TEST_CASE("setting read-mostly on existing pages moves nothing, and the next readers copy",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(device0, words.data(), 6);
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  CHECK(s.residents(words.data()) == bit_of(device0));
  CHECK(s.read(host, words.data()) == 6);
  check_page(s, words.data(), bit_of(host) | bit_of(device0), 0);
}

TEST_CASE("read-mostly overrides the preferred location", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  s.write(host, words.data(), 2);
  CHECK(s.residents(words.data()) == bit_of(device0));
  // The host maps the device's pool now, and must still get a copy.
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  CHECK(s.read(host, words.data()) == 2);
  CHECK(s.read(device1, words.data()) == 2);
  check_page(s, words.data(), bit_of(host) | bit_of(device0) | bit_of(device1), 0);
  CHECK(s.different_frames(host, device0, words.data()));
  s.write(host, words.data(), 3);
  check_page(s, words.data(), bit_of(host), bit_of(host));
}

TEST_CASE("read-mostly overrides accessed-by", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(device0, words.data(), 2);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  REQUIRE(s.comes_to_map(host, words.data()));
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  CHECK(s.read(host, words.data()) == 2);
  check_page(s, words.data(), bit_of(host) | bit_of(device0), 0);
  s.write(host, words.data(), 3);
  check_page(s, words.data(), bit_of(host), bit_of(host));
}

TEST_CASE("unsetting read-mostly collapses the copies into one", "[system]") {
  Stage& s = stage();
  const Words words{512 * page_words + region_words};
  write_read_mostly(words, host, 11);
  read_everywhere(words);
  advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
  for (std::size_t i = 0; i < words.size(); i += page_words) {
    const std::uint32_t holder = s.residents(&words[i]);
    REQUIRE(std::popcount(holder) == 1);
    REQUIRE(page_state(&words[i]).resident == holder);
  }
  for (const int reader : processors) CHECK(s.read(reader, &words[region_words]) == 11);
}

TEST_CASE("the remaining copy is at the preferred location, if a copy was there", "[system]") {
  Stage& s = stage();
  for (const int preferred : processors) {
    CAPTURE(preferred);
    const Words words{region_words};
    advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, preferred);
    write_read_mostly(words, device1, 12);
    read_everywhere(words);
    advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
    check_page(s, words.data(), bit_of(preferred), everybody);
    CHECK(s.read(device0, words.data()) == 12);
  }
}

TEST_CASE("the remaining copy is an arbitrary one, if none was at the preferred location",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  write_read_mostly(words, host, 12);
  CHECK(s.read(device1, words.data()) == 12);
  REQUIRE(s.residents(words.data()) == (bit_of(host) | bit_of(device1)));
  advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
  const std::uint32_t holder = s.residents(words.data());
  CHECK((holder == bit_of(host) || holder == bit_of(device1)));
  CHECK(s.read(device0, words.data()) == 12);
}

TEST_CASE("after read-mostly is unset, nothing is duplicated until it is set again", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  write_read_mostly(words, host, 13);
  advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
  for (int round = 0; round < 20; ++round) {
    for (const int reader : processors) {
      CHECK(s.read(reader, words.data()) == 13);
      REQUIRE(std::popcount(s.residents(words.data())) == 1);
    }
  }
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  read_everywhere(words);
  check_page(s, words.data(), everybody, 0);
}

TEST_CASE("without the advice a page has one copy, whichever processor reads it", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(host, words.data(), 14);
  for (const int reader : {device0, device1, host, device1}) {
    CHECK(s.read(reader, words.data()) == 14);
    check_page(s, words.data(), bit_of(reader), bit_of(reader));
  }
}

TEST_CASE("only the pages that the advice names are duplicated", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write_pages(host, words.data(), words.bytes(), 15);
  advise(&words[4 * page_words], 4 * page_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY);
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == 15 * 16);
  for (std::size_t i = 0; i < 16; ++i) {
    const bool named = i >= 4 && i < 8;
    CAPTURE(i);
    CHECK(s.residents(&words[i * page_words]) ==
          (named ? bit_of(host) | bit_of(device0) : bit_of(device0)));
  }
}

TEST_CASE("copies survive the device's process, and its successor writes again", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  write_read_mostly(words, host, 16);
  CHECK(s.read(device1, words.data()) == 16);
  WHERRY_TRY(cuDevicePrimaryCtxReset(device1));
  s.session().renew_stream(device1);
  CHECK(s.read(device1, words.data()) == 16);
  CHECK((s.residents(words.data()) & bit_of(host)) != 0);
  CHECK(s.witness().writers(words.data()) == 0);
  s.write(device1, words.data(), 17);
  check_page(s, words.data(), bit_of(device1), bit_of(device1));
  CHECK(s.read(host, words.data()) == 17);
}

}  // namespace wherry::test::read_mostly_test
