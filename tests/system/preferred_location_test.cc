// Tests each sentence of the preferred-location contract against Linux's pools and page tables.
#include <array>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::preferred_location_test {

namespace {

constexpr std::array processors{host, device0, device1};

Stage& stage() {
  static Stage the_stage{"capacity=64M;capacity=64M"};
  return the_stage;
}

// The processor that is neither of the two.
int third(int one, int other) {
  for (const int processor : processors)
    if (processor != one && processor != other) return processor;
  return host;
}

}  // namespace

TEST_CASE("setting the preferred location does not cause data to migrate", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  s.write(host, words.data(), 1);
  for (const int preferred : processors) {
    advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, preferred);
    check_page(s, words.data(), bit_of(host), bit_of(host));
  }
}

TEST_CASE("the first touch creates pages at the preferred location, and maps them remotely",
          "[system]") {
  Stage& s = stage();
  for (const int preferred : processors) {
    for (const int faulting_processor : processors) {
      CAPTURE(preferred, faulting_processor);
      const Words words{2 * region_words};
      advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, preferred);
      s.write(faulting_processor, words.data(), 3);
      CHECK(s.read(faulting_processor, &words[region_words]) == 0);
      for (const std::uint64_t* const word : {&words[0], &words[region_words]}) {
        check_page(s, word, bit_of(preferred), bit_of(preferred) | bit_of(faulting_processor));
        CHECK((s.witness().mappers(word) & bit_of(faulting_processor)) != 0);
      }
      CHECK(s.read(preferred, words.data()) == 3);
      CHECK(s.same_frame(preferred, faulting_processor, words.data()));
      CHECK(s.residents(words.data()) == bit_of(preferred));
    }
  }
}

TEST_CASE("data in its preferred location is not migrated when others access it", "[system]") {
  Stage& s = stage();
  for (const int preferred : processors) {
    CAPTURE(preferred);
    const Words words{region_words};
    advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, preferred);
    s.write(preferred, words.data(), 1);
    std::uint64_t value = 1;
    for (const int faulting_processor : processors) {
      CHECK(s.read(faulting_processor, words.data()) == value);
      s.write(faulting_processor, words.data(), ++value);
      check_page(s, words.data(), bit_of(preferred),
                 bit_of(host) | bit_of(device0) | bit_of(device1));
      CHECK(s.same_frame(preferred, faulting_processor, words.data()));
    }
    CHECK(s.witness().mappers(words.data()) == (bit_of(host) | bit_of(device0) | bit_of(device1)));
    // All processors have their mappings now.
    const std::uint64_t before = Stage::faults();
    for (const int faulting_processor : processors)
      s.write(faulting_processor, words.data(), ++value);
    for (const int faulting_processor : processors)
      CHECK(s.read(faulting_processor, words.data()) == value);
    CHECK(Stage::faults() == before);
  }
}

TEST_CASE("a write through a remote mapping is visible to other processors at once", "[system]") {
  Stage& s = stage();
  const Words words{4 * region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    for (const int writer : processors) {
      const std::uint64_t value = round * 10 + bit_of(writer);
      s.write_pages(writer, words.data(), words.bytes(), value);
      for (const int reader : processors)
        REQUIRE(s.read_pages(reader, words.data(), words.bytes()) == 64 * value);
    }
  }
  CHECK(s.residents(words.data()) == bit_of(device1));
}

TEST_CASE("data that is not in its preferred location migrates to the processor accessing it",
          "[system]") {
  Stage& s = stage();
  for (const int preferred : processors) {
    for (const int owner : processors) {
      if (owner == preferred) continue;
      const int faulting_processor = third(preferred, owner);
      CAPTURE(preferred, owner, faulting_processor);
      const Words words{region_words};
      s.write(owner, words.data(), 4);
      advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, preferred);
      CHECK(s.read(faulting_processor, words.data()) == 4);
      check_page(s, words.data(), bit_of(faulting_processor), bit_of(faulting_processor));
      // The preferred location's own access brings the page there, where it stays.
      CHECK(s.read(preferred, words.data()) == 4);
      CHECK(s.residents(words.data()) == bit_of(preferred));
      s.write(owner, words.data(), 5);
      s.write(faulting_processor, words.data(), 6);
      CHECK(s.residents(words.data()) == bit_of(preferred));
      CHECK(s.read(preferred, words.data()) == 6);
    }
  }
}

TEST_CASE("a changed preference guides the next faults", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  for (const int faulting_processor : processors) s.write(faulting_processor, words.data(), 1);
  REQUIRE(s.residents(words.data()) == bit_of(device0));
  // A processor with a remote mapping gets the pages when it accesses them again.
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  CHECK(s.residents(words.data()) == bit_of(device0));
  s.write(device1, words.data(), 2);
  CHECK(s.residents(words.data()) == bit_of(device1));
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  CHECK(s.read(host, words.data()) == 2);
  CHECK(s.residents(words.data()) == bit_of(host));
}

TEST_CASE("an unset preference no longer guides anything", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  s.write(host, words.data(), 1);
  CHECK(s.residents(words.data()) == bit_of(device0));
  // The location argument is ignored.
  WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(words.data()), words.bytes(),
                         CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
                         {CU_MEM_LOCATION_TYPE_DEVICE, 99}));
  CHECK(s.residents(words.data()) == bit_of(device0));
  CHECK(s.read(device1, words.data()) == 1);  // device 1 had no mapping
  check_page(s, words.data(), bit_of(device1), bit_of(device1));
  s.write(host, words.data(), 2);
  check_page(s, words.data(), bit_of(host), bit_of(host));
}

TEST_CASE("the host is preferred as a whole, by the number of its node, or as the caller's node",
          "[system]") {
  Stage& s = stage();
  int node = -1;
  WHERRY_TRY(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device0));
  for (const CUmemLocation& where : {CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 99},
                                     CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA, node},
                                     CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 99}}) {
    CAPTURE(static_cast<int>(where.type));
    const Words words{region_words};
    WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(words.data()), words.bytes(),
                           CU_MEM_ADVISE_SET_PREFERRED_LOCATION, where));
    s.write(device0, words.data(), 5);
    check_page(s, words.data(), bit_of(host), bit_of(host) | bit_of(device0));
    CHECK(s.read(host, words.data()) == 5);
    CHECK(s.same_frame(host, device0, words.data()));
  }
}

TEST_CASE("only the pages that the advice names have a preferred location", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(&words[3 * page_words], 5 * page_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  advise(&words[8 * page_words], 2 * page_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  s.write_pages(host, words.data(), words.bytes(), 1);
  for (std::size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    const int where = i >= 3 && i < 8 ? device1 : i >= 8 && i < 10 ? device0 : host;
    CHECK(s.residents(&words[i * page_words]) == bit_of(where));
  }
  CHECK(s.read_pages(host, words.data(), words.bytes()) == 16);
}

TEST_CASE("a preference spans blocks, up to the range's last page", "[system]") {
  Stage& s = stage();
  const Words words{3 * 512 * page_words + page_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  s.write_pages(device0, words.data(), words.bytes(), 2);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    REQUIRE(s.residents(&words[i]) == bit_of(device1));
  CHECK(s.read_pages(host, words.data(), words.bytes()) == 2 * words.size() / page_words);
  CHECK(s.residents(words.data()) == bit_of(device1));
}

TEST_CASE("freeing memory removes its preference and its remote mappings", "[system]") {
  Stage& s = stage();
  for (int round = 0; round < 4; ++round) {
    {
      const Words words{region_words};
      advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
      for (const int faulting_processor : processors) s.write(faulting_processor, words.data(), 1);
    }
    for (const int faulting_processor : processors) {
      const Words words{region_words};
      CHECK(s.read(faulting_processor, words.data()) == 0);
      check_page(s, words.data(), bit_of(faulting_processor), bit_of(faulting_processor));
    }
  }
}

}  // namespace wherry::test::preferred_location_test
