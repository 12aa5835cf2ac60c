// Tests each sentence of the accessed-by contract against Linux's view: pool contents, page tables
// and fault counts.
#include <sys/mman.h>

#include <array>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::accessed_by_test {

namespace {

constexpr std::array processors{host, device0, device1};

Stage& stage() {
  // "arriving": the library merges no pages in the background, which would cause faults.
  static Stage the_stage("capacity=64M;capacity=64M", "WHERRY_HUGE_PAGES", "arriving");
  return the_stage;
}

// Accesses every page from the processor, and checks that no access faults or moves a page.
void check_no_faults(int processor, const Words& words, std::uint64_t expected,
                     std::uint64_t written) {
  Stage& s = stage();
  CAPTURE(processor);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    REQUIRE(s.comes_to_map(processor, &words[i]));
  const std::uint64_t before = Stage::faults();
  CHECK(s.read_pages(processor, words.data(), words.bytes()) ==
        expected * words.size() / page_words);
  s.write_pages(processor, words.data(), words.bytes(), written);
  CHECK(Stage::faults() == before);
}

}  // namespace

TEST_CASE("setting accessed-by does not cause data to migrate", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(device0, words.data(), 1);
  for (const int accessor : processors) {
    advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, accessor);
    CHECK(s.residents(words.data()) == bit_of(device0));
    CHECK(page_state(words.data()).resident == bit_of(device0));
  }
}

TEST_CASE("data is mapped in the page tables of the processor that accesses it", "[system]") {
  Stage& s = stage();
  for (const int owner : processors) {
    for (const int accessor : processors) {
      CAPTURE(owner, accessor);
      const Words words{3 * region_words};
      s.write_pages(owner, words.data(), words.bytes(), 2);
      advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, accessor);
      check_no_faults(accessor, words, 2, 3);
      CHECK(s.same_frame(owner, accessor, words.data()));
      CHECK(s.residents(words.data()) == bit_of(owner));
      CHECK((page_state(words.data()).mapped_read & bit_of(accessor)) != 0);
      CHECK(s.read(owner, words.data()) == 3);
    }
  }
}

TEST_CASE("accessed-by has no impact on the location of the data", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(device0, words.data(), 1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  for (int i = 0; i < 20; ++i) s.write(host, words.data(), 2);
  CHECK(s.residents(words.data()) == bit_of(device0));
  // A processor without the advice still gets the pages by migration.
  CHECK(s.read(device1, words.data()) == 2);
  CHECK(s.residents(words.data()) == bit_of(device1));
}

TEST_CASE("pages that are created later are mapped, too", "[system]") {
  Stage& s = stage();
  const Words words{3 * region_words};
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  s.write_pages(device0, words.data(), words.bytes(), 7);
  CHECK(s.residents(words.data()) == bit_of(device0));
  check_no_faults(host, words, 7, 8);
  check_no_faults(device1, words, 8, 9);
  CHECK(s.residents(words.data()) == bit_of(device0));
}

TEST_CASE("the first access by the advised processor creates the page in its own pool",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  s.write(device1, words.data(), 4);
  check_page(s, words.data(), bit_of(device1), bit_of(device1));
}

TEST_CASE("the mappings are updated whenever the data migrates", "[system]") {
  Stage& s = stage();
  const Words words{4 * region_words};
  s.write_pages(device0, words.data(), words.bytes(), 1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  std::uint64_t value = 1;
  for (int round = 0; round < 10; ++round) {
    for (const int owner : {device1, device0}) {
      s.write_pages(owner, words.data(), words.bytes(), ++value);
      REQUIRE(s.residents(words.data()) == bit_of(owner));
      // Accesses that begin after the migration has completed.
      check_no_faults(host, words, value, value + 1);
      ++value;
      REQUIRE(s.residents(words.data()) == bit_of(owner));
      CHECK(s.same_frame(host, owner, words.data()));
    }
  }
}

TEST_CASE("a device's mapping is updated to the page in host memory when the host takes it",
          "[system]") {
  Stage& s = stage();
  const Words words{2 * region_words};
  s.write_pages(device0, words.data(), words.bytes(), 1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device0);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  s.write_pages(host, words.data(), words.bytes(), 2);
  REQUIRE(s.residents(words.data()) == bit_of(host));
  check_no_faults(device0, words, 2, 3);
  check_no_faults(device1, words, 3, 4);
  CHECK(s.same_frame(host, device0, words.data()));
  CHECK(s.same_frame(host, device1, words.data()));
  CHECK(s.read(host, words.data()) == 4);
  CHECK(s.residents(words.data()) == bit_of(host));
}

TEST_CASE("every processor can be advised as accessing, all at once", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  for (const int accessor : processors) advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, accessor);
  s.write_pages(device1, words.data(), words.bytes(), 1);
  std::uint64_t value = 1;
  for (const int accessor : processors) {
    check_no_faults(accessor, words, value, value + 1);
    ++value;
  }
  CHECK(s.residents(words.data()) == bit_of(device1));
}

TEST_CASE("where a processor's own memory is preferred, that overrides its accessed-by",
          "[system]") {
  Stage& s = stage();
  for (const bool preferred_first : {true, false}) {
    const Words words{region_words};
    s.write(device0, words.data(), 1);
    if (preferred_first) advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
    advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
    if (!preferred_first) advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
    CHECK(s.residents(words.data()) == bit_of(device0));
    CHECK(s.read(host, words.data()) == 1);
    CHECK(s.residents(words.data()) == bit_of(host));
    s.write(device0, words.data(), 2);  // it stays in device 0's pool, and is mapped there
    CHECK(s.residents(words.data()) == bit_of(host));
    CHECK(s.read(host, words.data()) == 2);
  }
}

TEST_CASE("where another processor's memory is preferred, accessed-by still prevents faults",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  s.write_pages(device0, words.data(), words.bytes(), 1);
  REQUIRE(s.residents(words.data()) == bit_of(device1));
  check_no_faults(host, words, 1, 2);
  CHECK(s.read(device0, words.data()) == 2);
  CHECK(s.residents(words.data()) == bit_of(device1));
}

TEST_CASE("accessed-by holds again when the preference that overrode it is taken back",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  s.write_pages(host, words.data(), words.bytes(), 1);
  advise(words, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
  s.write_pages(device0, words.data(), words.bytes(), 2);
  REQUIRE(s.residents(words.data()) == bit_of(device0));
  check_no_faults(host, words, 2, 3);
  CHECK(s.residents(words.data()) == bit_of(device0));
}

TEST_CASE("accessed-by holds again when read-mostly, which overrode it, is taken back",
          "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write_pages(device0, words.data(), words.bytes(), 1);
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  CHECK(s.read(device1, words.data()) == 1);
  advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
  check_no_faults(host, words, 1, 2);
  CHECK((s.residents(words.data()) & bit_of(host)) == 0);
}

TEST_CASE("after accessed-by is unset, accesses may fault and are answered", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(device0, words.data(), 1);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  advise(words, CU_MEM_ADVISE_UNSET_ACCESSED_BY, host);
  s.write(device1, words.data(), 2);
  s.write(device0, words.data(), 3);
  CHECK(s.read(host, words.data()) == 3);
  CHECK(s.residents(words.data()) == bit_of(host));
}

TEST_CASE("a program that locks all its memory maps remotely as others do", "[system]") {
  Stage& s = stage();
  const Words words{16 * region_words};
  s.write_pages(device0, words.data(), words.bytes(), 4);
  REQUIRE(::mlockall(MCL_FUTURE) == 0);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device1);
  const bool unlocked = ::munlockall() == 0;
  CHECK(unlocked);
  // mlockall() populates each new mapping. Populating a hole of a pool would create a page there.
  for (std::size_t i = 0; i < words.size(); i += page_words)
    REQUIRE(s.residents(&words[i]) == bit_of(device0));
  check_no_faults(host, words, 4, 5);
  check_no_faults(device1, words, 5, 6);
  CHECK(s.same_frame(host, device0, words.data()));
  // The same on the way back to the host, while the host's own pool has no pages there.
  REQUIRE(::mlockall(MCL_FUTURE) == 0);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  CHECK(::munlockall() == 0);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    REQUIRE(s.residents(&words[i]) == bit_of(device0));
  CHECK(s.read_pages(host, words.data(), words.bytes()) == 6 * words.size() / page_words);
  CHECK(s.residents(words.data()) == bit_of(host));
}

TEST_CASE("accessed-by on many small ranges maps those and no others", "[system]") {
  Stage& s = stage();
  const Words words{2 * 512 * page_words};
  s.write_pages(device0, words.data(), words.bytes(), 1);
  for (std::size_t i = 0; i < words.size(); i += 8 * page_words)
    advise(&words[i], page_bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
  for (std::size_t i = 0; i < words.size(); i += 8 * page_words)
    REQUIRE(s.comes_to_map(host, &words[i]));
  const std::uint64_t before = Stage::faults();
  for (std::size_t i = 0; i < words.size(); i += 8 * page_words)
    CHECK(s.read(host, &words[i]) == 1);
  CHECK(Stage::faults() == before);
  CHECK(s.read(host, &words[page_words]) == 1);
  CHECK(Stage::faults() > before);
  CHECK(s.residents(words.data()) == bit_of(device0));
  CHECK(s.residents(&words[page_words]) == bit_of(host));
}

}  // namespace wherry::test::accessed_by_test
