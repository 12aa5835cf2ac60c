// If the host reads block after block, the next blocks come before it uses them, by Linux's view.
#include <thread>

#include "support/catch.h"
#include "support/machine_load.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::read_ahead_test {

namespace {

constexpr std::size_t blocks = 24;

Stage& stage() {
  static Stage the_stage("capacity=128M,workers=1", "WHERRY_POLICY", "uvm");
  return the_stage;
}

}  // namespace

TEST_CASE("the blocks after those that the host sweeps are there before their first use",
          "[system]") {
  Stage& s = stage();
  const Words words{(blocks + 1) * block_words};
  std::uint64_t* const first = whole_block_of(words);
  std::uint64_t value = 0;
  // The library does not bring blocks ahead while other programs use all CPUs.
  MachineLoad load;
  const bool came_ahead = comes_true([&] {
    s.write_pages(device0, first, blocks * block_bytes, ++value);
    std::size_t ahead = 0;
    for (std::size_t block = 0; block < blocks / 2; ++block) {
      REQUIRE(s.read_pages(host, first + block * block_words, block_bytes) == value * 512);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      load.look();
      for (std::size_t i = 0; i < block_words; i += page_words)
        if (s.residents(first + (block + 1) * block_words + i) == bit_of(host)) ++ahead;
    }
    // At most five blocks beyond the used ones have come.
    for (std::size_t i = (blocks / 2 + 5) * block_words; i < blocks * block_words; i += page_words)
      REQUIRE(s.residents(first + i) == bit_of(device0));
    return ahead >= block_bytes / page_bytes;
  });
  if (!came_ahead && load.was_busy())
    WARN("skipped: other programs use the CPUs");
  else
    CHECK(came_ahead);
  CHECK(s.read_pages(host, first, blocks * block_bytes) == value * 512 * blocks);
}

TEST_CASE("advised memory stays where it is until it is used", "[system]") {
  Stage& s = stage();
  const Words words{blocks * block_words};
  s.write_pages(device0, words.data(), words.bytes(), 3);
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  (void)s.read_pages(host, words.data(), words.bytes() / 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (s.residents(words.data() + i) != bit_of(device0)) FAIL("page " << i / page_words);
}

}  // namespace wherry::test::read_ahead_test
