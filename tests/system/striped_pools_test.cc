// Pools that are divided among several files, by Linux's view. The library divides them on machines
// with more than two CPUs; WHERRY_COPIERS asks for it on any.
#include <signal.h>

#include "support/catch.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::striped_pools_test {

namespace {

constexpr std::size_t words_per_mebibyte = mebibyte / sizeof(std::uint64_t);

Stage& stage() {
  static Stage the_stage("capacity=256M;capacity=256M", "WHERRY_COPIERS", "8");
  return the_stage;
}

int files_in_use(int processor) {
  return PoolFile(processor + 1).files_in_use();
}

void prefetch(const Words& words, int processor) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(words), words.bytes(), location_of(processor), 0,
                                stage().session().stream(device0)));
  WHERRY_TRY(stage().session().wait(device0));
}

// Writes a different word to each page.
void fill(const Words& words, std::uint64_t salt) {
  for (std::size_t i = 0; i < words.size(); i += page_words) words.data()[i] = i ^ salt;
}
void check_filled(const Words& words, std::uint64_t salt) {
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (words.data()[i] != (i ^ salt)) FAIL("page " << i / page_words);
}

// Whether is_right(word) becomes true while the host and the device map the word: the library may
// remove page-table entries at any time.
template <typename IsRight>
bool have_frames(const std::uint64_t* word, int device, const IsRight& is_right) {
  return comes_true([&] {
    (void)stage().read(host, word);
    (void)stage().read(device, word);
    return is_right(word);
  });
}

}  // namespace

TEST_CASE("the pages of one allocation lie in all files of the pools, wherever they go",
          "[system]") {
  Stage& s = stage();
  const Words words{64 * words_per_mebibyte};
  fill(words, 1);
  CHECK(files_in_use(host) == 8);
  for (const int to : {device0, device1, host}) {
    prefetch(words, to);
    CAPTURE(to);
    CHECK(files_in_use(to) == 8);
    for (std::size_t i = 0; i < words.size(); i += page_words)
      if (s.residents(words.data() + i) != bit_of(to)) FAIL("page " << i / page_words);
  }
  check_filled(words, 1);
  CHECK(s.witness().pool_bytes(index_of(device0)) == 0);
}

TEST_CASE("faults, copies and remote mappings work on each file", "[system]") {
  Stage& s = stage();
  const Words words{32 * words_per_mebibyte};
  fill(words, 2);
  SECTION("a device takes pages, and the host takes them back") {
    const std::uint64_t* const last = words.data() + words.size() - page_words;
    s.write_pages(device0, words.data(), words.bytes(), 7);
    CHECK(s.residents(words.data()) == bit_of(device0));
    CHECK(s.residents(last) == bit_of(device0));
    CHECK(s.read_pages(host, words.data(), words.bytes()) == 7 * (words.bytes() / page_bytes));
  }
  SECTION("read-mostly copies") {
    advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
    const std::uint64_t sum = s.read_pages(host, words.data(), words.bytes());
    CHECK(s.read_pages(device1, words.data(), words.bytes()) == sum);
    check_filled(words, 2);
    for (std::size_t i = 0; i < words.size(); i += 512 * page_words) {
      CHECK(s.residents(words.data() + i) == (bit_of(host) | bit_of(device1)));
      CHECK(have_frames(words.data() + i, device1, [&](const std::uint64_t* word) {
        return s.different_frames(host, device1, word);
      }));
    }
  }
  SECTION("pages that stay at the host are mapped by a device") {
    advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
    s.write_pages(device0, words.data(), words.bytes(), 9);
    for (std::size_t i = 0; i < words.size(); i += 512 * page_words) {
      CHECK(s.residents(words.data() + i) == bit_of(host));
      CHECK(have_frames(words.data() + i, device0, [&](const std::uint64_t* word) {
        return s.same_frame(host, device0, word);
      }));
    }
    CHECK(s.read_pages(host, words.data(), words.bytes()) == 9 * (words.bytes() / page_bytes));
  }
}

TEST_CASE("a device's own memory lies in one file, which other processes can open", "[system]") {
  const int before = files_in_use(device1);
  WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device1)));
  CUdeviceptr memory = 0;
  WHERRY_TRY(cuMemAlloc(&memory, 100 * mebibyte));
  CHECK(files_in_use(device1) == before + 1);
  CUipcMemHandle handle{};
  CHECK(cuIpcGetMemHandle(&handle, memory) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(memory));
  CHECK(files_in_use(device1) == before);
}

TEST_CASE("a device that was killed sees each file of its pool again", "[system]") {
  Stage& s = stage();
  const Words words{32 * words_per_mebibyte};
  fill(words, 3);
  prefetch(words, device0);
  REQUIRE(::kill(Witness::process_of(index_of(device0)), SIGKILL) == 0);
  CHECK(comes_true([&] { return s.session().wait(device0) != CUDA_SUCCESS; }));
  s.session().reset(device0);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words) sum += i ^ std::uint64_t{3};
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == sum);
  CHECK(s.residents(words.data()) == bit_of(device0));
  check_filled(words, 3);
}

TEST_CASE("memory far from the arena's start is divided like memory at its start", "[system]") {
  Stage& s = stage();
  const Words large{(std::size_t{5} << 30) / sizeof(std::uint64_t)};
  const std::size_t step = large.size() / 32;
  for (std::size_t i = 0; i < large.size(); i += step) large.data()[i] = i;
  CHECK(files_in_use(host) == 8);
  for (std::size_t i = 0; i < large.size(); i += step) {
    CHECK(s.read(device1, large.data() + i) == i);
    CHECK(s.residents(large.data() + i) == bit_of(device1));
  }
}

}  // namespace wherry::test::striped_pools_test
