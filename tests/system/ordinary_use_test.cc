// Managed memory in the place of ordinary memory: its pages can be given up and saved, and an
// allocation can become private memory, while threads use it. Checked against Linux's pools and
// mappings.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/coherent_threads.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::ordinary_use_test {

namespace {

Stage& stage() {
  static Stage the_stage{
      "kind=coherent,capacity=32M,workers=1;kind=coherent,capacity=32M,workers=1"};
  return the_stage;
}

// Memory whose owner the test changes: cuMemFree is not called for it.
std::uint64_t* allocate(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  WHERRY_TRY(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
  return reinterpret_cast<std::uint64_t*>(pointer);
}

// Pages in every pool: host, device 0, device 1 and nowhere.
void spread(std::uint64_t* words) {
  stage().write_pages(host, words, block_bytes / 2, 1);
  stage().write_pages(device0, words + block_words, block_bytes, 2);
  stage().write_pages(device1, words + 2 * block_words, block_bytes / 4, 3);
}

std::uint64_t sum_of_pages(const std::uint64_t* words, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / sizeof *words; i += page_words) sum += words[i];
  return sum;
}

// Whether Linux has private anonymous memory there.
bool is_private(const void* memory) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  for (std::string line; std::getline(maps, line);) {
    std::size_t dash = 0;
    const std::uintptr_t start = std::stoull(line, &dash, 16);
    const std::uintptr_t end = std::stoull(line.substr(dash + 1), nullptr, 16);
    if (address >= start && address < end)
      return line.find(" rw-p 00000000 00:00 0") != std::string::npos ||
             (line.find("rw-p") != std::string::npos && line.find("/memfd") == std::string::npos);
  }
  return false;
}

}  // namespace

TEST_CASE("freed pages leave every pool, and are zeros at the next access", "[system]") {
  Stage& s = stage();
  std::uint64_t* const words = allocate(4 * block_bytes);
  spread(words);
  const auto pointer = reinterpret_cast<CUdeviceptr>(words);
  REQUIRE(wherryFreePages(pointer + page_bytes, 3 * block_bytes - 2 * page_bytes) == CUDA_SUCCESS);
  for (const std::size_t at : {page_words, block_words, 2 * block_words}) {
    const std::uint32_t left = s.residents(&words[at]);
    CHECK((left & ~s.witness().leftovers(&words[at], left)) == 0);
  }
  CHECK(s.residents(words) != 0);
  CHECK(words[0] == 1);
  CHECK(sum_of_pages(words + page_words, 3 * block_bytes - 2 * page_bytes) == 0);
  CHECK(s.read(device1, &words[block_words]) == 0);
  WHERRY_TRY(cuMemFree(pointer));
}

TEST_CASE("saved pages are in the file, absent ones are holes, and none moves", "[system]") {
  Stage& s = stage();
  std::uint64_t* const words = allocate(4 * block_bytes);
  spread(words);
  const int file = ::memfd_create("saved", 0);
  REQUIRE(::ftruncate(file, static_cast<off_t>(4 * block_bytes + page_bytes)) == 0);
  const auto pointer = reinterpret_cast<CUdeviceptr>(words);
  REQUIRE(wherrySavePages(pointer, 4 * block_bytes, file, page_bytes) == CUDA_SUCCESS);
  std::vector<std::uint64_t> saved(4 * block_words);
  CHECK(::pread(file, saved.data(), 4 * block_bytes, page_bytes) ==
        static_cast<ssize_t>(4 * block_bytes));
  CHECK(saved[0] == 1);
  CHECK(saved[block_words] == 2);
  CHECK(saved[2 * block_words] == 3);
  CHECK(::lseek(file, static_cast<off_t>(page_bytes + 3 * block_bytes), SEEK_DATA) < 0);
  CHECK(s.residents(&words[3 * block_words]) == 0);
  CHECK(s.residents(&words[block_words]) == bit_of(device0));
  CHECK(s.residents(&words[2 * block_words]) == bit_of(device1));
  ::close(file);
  WHERRY_TRY(cuMemFree(pointer));
}

TEST_CASE("memory that is made private again keeps its contents, and is in no pool any more",
          "[system]") {
  Stage& s = stage();
  std::uint64_t* const words = allocate(4 * block_bytes);
  spread(words);
  // The host has all pages of the first block after this.
  const std::uint64_t sum = sum_of_pages(words, 2 * block_bytes);
  const std::uint64_t in_host = s.witness().pool_bytes(0);
  REQUIRE(wherryMakePrivate(reinterpret_cast<CUdeviceptr>(words)) == CUDA_SUCCESS);
  for (std::size_t block = 0; block < 4; ++block) CHECK(is_private(&words[block * block_words]));
  CHECK(s.witness().pool_bytes(1 + device0) == 0);
  CHECK(s.witness().pool_bytes(1 + device1) == 0);
  CHECK(s.witness().pool_bytes(0) == in_host - block_bytes);
  CHECK(sum_of_pages(words, 2 * block_bytes) == sum);
  CHECK(words[2 * block_words] == 3);
  CHECK(words[4 * block_words - 1] == 0);
  // mprotect() and fork() work as with all private memory.
  REQUIRE(::mprotect(words, page_bytes, PROT_READ) == 0);
  words[page_words] = 11;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = words[page_words] == 11;
    words[page_words] = 12;
    ::_exit(good ? 5 : 6);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(words[page_words] == 11);
  CHECK(::munmap(words, 4 * block_bytes) == 0);
}

TEST_CASE("threads that use memory while it becomes private lose no write", "[system]") {
  Stage& s = stage();
  const std::uint64_t rounds = scaled(20);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    constexpr std::size_t blocks = 3;
    std::uint64_t* const words = allocate(blocks * block_bytes);
    if (round % 3 != 0) s.write_pages(round % 2 == 0 ? device0 : host, words, block_bytes, 0);
    constexpr int threads = 4;
    std::atomic<bool> stops{false};
    std::vector<std::uint64_t> done(threads);
    std::vector<std::thread> writers;
    for (int i = 0; i < threads; ++i) {
      writers.emplace_back([&, i] {
        // Each thread has words of its own in pages that all share.
        const std::size_t own = static_cast<std::size_t>(i) + 1;
        for (std::uint64_t count = 1; !stops; ++count) {
          for (std::size_t at = own; at < blocks * block_words; at += 16 * page_words)
            const_cast<volatile std::uint64_t&>(words[at]) =
                const_cast<volatile std::uint64_t&>(words[at]) + 1;
          done[static_cast<std::size_t>(i)] = count;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    CHECK(wherryMakePrivate(reinterpret_cast<CUdeviceptr>(words)) == CUDA_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    stops = true;
    for (std::thread& writer : writers) writer.join();
    for (int i = 0; i < threads; ++i) {
      const std::size_t own = static_cast<std::size_t>(i) + 1;
      for (std::size_t at = own; at < blocks * block_words; at += 16 * page_words)
        if (words[at] != done[static_cast<std::size_t>(i)])
          FAIL("round " << round << ": thread " << i << " wrote "
                        << done[static_cast<std::size_t>(i)] << " times, and " << words[at]
                        << " arrived");
    }
    ::munmap(words, blocks * block_bytes);
  }
}

}  // namespace wherry::test::ordinary_use_test
