// Coherent devices: their kernels and attached threads run in the program and share its page table,
// and their memory is in pools of their own. Checked against Linux's pools, page tables and frames.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/coherent_threads.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::coherent_test {

namespace {

constexpr std::size_t capacity = std::size_t{32} << 20;
constexpr int isolated = 2;
// The bits of the host and both coherent devices, which share one page table.
constexpr std::uint32_t sharing = bit_of(host) | bit_of(device0) | bit_of(device1);

Stage& stage() {
  // No samples of accesses, which could move pages; usage_sampling_test tests them.
  static Stage the_stage(
      "kind=coherent,capacity=32M,workers=1;kind=coherent,capacity=32M,workers=2;capacity=32M",
      "WHERRY_SAMPLING", "0");
  return the_stage;
}

void prefetch(const Words& words, int to) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(words), words.bytes(), location_of(to), 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

void touch_all(const Words& words) {
  for (std::size_t i = 0; i < words.size(); i += page_words)
    *const_cast<volatile std::uint64_t*>(&words[i]) = words[i] + 1;
}

}  // namespace

TEST_CASE("a kernel of a coherent device runs in the program and uses its ordinary memory",
          "[system]") {
  Stage& s = stage();
  std::vector<int> ordinary(1000, 1);
  std::mutex lock;
  pid_t process = 0;
  struct {
    std::vector<int>* numbers;
    std::mutex* lock;
    pid_t* process;
  } const args{&ordinary, &lock, &process};
  s.session().run(device0, [args] {
    const std::lock_guard guard(*args.lock);
    args.numbers->push_back(2);
    *args.process = ::getpid();
  });
  CHECK(ordinary.size() == 1001);
  CHECK(process == ::getpid());
  CHECK(device_process(device0) == ::getpid());
  CHECK(device_process(isolated) != ::getpid());
}

TEST_CASE("pages that a coherent device touches first are in its pool, and the host sees them",
          "[system]") {
  Stage& s = stage();
  const Words words{2 * block_words};
  s.write_pages(device0, words.data(), words.bytes(), 7);
  CHECK(pages_not_at(stage(), words, device0) == 0);
  const std::uint64_t faults = Stage::faults();
  CHECK(s.read_pages(host, words.data(), words.bytes()) == 7 * words.size() / page_words);
  CHECK(s.read_pages(device1, words.data(), words.bytes()) == 7 * words.size() / page_words);
  CHECK(Stage::faults() == faults);
  check_page(s, words.data(), bit_of(device0), sharing);
  CHECK(s.same_frame(host, device0, words.data()));
}

TEST_CASE("attached threads count as their device", "[system]") {
  const Words words{2 * block_words};
  const std::uint64_t faults = Stage::faults(device1);
  on_thread_of(device1, [&] { touch_all(words); });
  CHECK(pages_not_at(stage(), words, device1) == 0);
  CHECK(Stage::faults(device1) > faults);
}

TEST_CASE("a prefetch moves pages between the host and coherent devices, and maps them",
          "[system]") {
  Stage& s = stage();
  const Words words{3 * block_words + 5 * page_words};
  s.write_pages(host, words.data(), words.bytes(), 3);
  for (const int to : {device0, device1, host, isolated, device1, isolated, host, device0}) {
    CAPTURE(to);
    prefetch(words, to);
    CHECK(pages_not_at(stage(), words, to) == 0);
    if (to == isolated) continue;
    const std::uint64_t faults = Stage::faults();
    CHECK(s.read_pages(host, words.data(), words.bytes()) == 3 * words.size() / page_words);
    CHECK(Stage::faults() == faults);
    check_page(s, words.data(), bit_of(to), sharing);
  }
}

TEST_CASE("read-mostly makes no second copy between processors of one page table", "[system]") {
  Stage& s = stage();
  const Words words{block_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  s.write_pages(host, words.data(), words.bytes(), 5);
  const std::uint64_t sum = 5 * words.size() / page_words;
  for (const int reader : {device0, device1, host})
    CHECK(s.read_pages(reader, words.data(), words.bytes()) == sum);
  CHECK(pages_not_at(stage(), words, host) == 0);

  CHECK(s.read_pages(isolated, words.data(), words.bytes()) == sum);
  CHECK(s.residents(words.data()) == (bit_of(host) | bit_of(isolated)));
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == sum);
  CHECK(s.residents(words.data()) == (bit_of(host) | bit_of(isolated)));

  s.write(device0, words.data(), 6);
  CHECK(s.residents(words.data()) == bit_of(host));
  CHECK(s.read(isolated, words.data()) == 6);

  // A prefetch moves the only copy, and leaves the pages that another page table has copies of.
  const Words others{block_words};
  advise(others, CU_MEM_ADVISE_SET_READ_MOSTLY);
  s.write_pages(host, others.data(), others.bytes(), 5);
  prefetch(others, device1);
  CHECK(pages_not_at(stage(), others, device1) == 0);
  CHECK(s.read_pages(isolated, others.data(), others.bytes()) == sum);
  prefetch(others, host);
  CHECK(s.residents(others.data()) == (bit_of(device1) | bit_of(isolated)));
  s.write(host, others.data(), 7);
  CHECK(s.residents(others.data()) == bit_of(device1));
}

TEST_CASE("accessed-by changes nothing for a coherent device", "[system]") {
  Stage& s = stage();
  const Words words{block_words};
  advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device0);
  s.write_pages(isolated, words.data(), words.bytes(), 5);
  CHECK(s.residents(words.data()) == bit_of(isolated));
  CHECK_FALSE(s.maps(host, words.data()));
}

TEST_CASE("first touches follow the preferred location, also a coherent device's", "[system]") {
  Stage& s = stage();
  const Words words{2 * block_words};
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0);
  s.write_pages(host, words.data(), words.bytes(), 1);
  CHECK(pages_not_at(stage(), words, device0) == 0);
  const Words others{2 * block_words};
  advise(others, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  s.write_pages(device0, others.data(), others.bytes(), 1);
  CHECK(pages_not_at(stage(), others, host) == 0);
}

TEST_CASE("a coherent device's own memory is in its pool, and the host may use it", "[system]") {
  Stage& s = stage();
  CUdeviceptr address = 0;
  WHERRY_TRY(cuCtxSetCurrent(s.session().context(device1)));
  WHERRY_TRY(cuMemAlloc(&address, block_bytes));
  auto* const words = reinterpret_cast<std::uint64_t*>(address);
  s.write_pages(host, words, block_bytes, 9);
  CHECK(s.residents(words) == bit_of(device1));
  CHECK(s.read_pages(device1, words, block_bytes) == 9 * block_bytes / page_bytes);
  CHECK(s.read_pages(device0, words, block_bytes) == 9 * block_bytes / page_bytes);
  WHERRY_TRY(cuMemFree(address));
  WHERRY_TRY(cuCtxSetCurrent(s.session().context(device0)));
}

TEST_CASE("coherent devices work on more than they hold, and their pools stay within capacity",
          "[system]") {
  Stage& s = stage();
  const Words words{4 * capacity / sizeof(std::uint64_t)};
  std::atomic<bool> ends{false};
  std::atomic<bool> exceeded{false};
  std::thread watcher([&] {
    while (!ends)
      for (const int device : {device0, device1})
        if (s.witness().exceeds(1 + device, capacity)) exceeded = true;
  });
  const std::uint64_t passes = scaled(4);
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (const int device : {device0, device1})
      s.session().launch(device, 1, [first = words.data(), count = words.size(), device](auto) {
        for (std::size_t i = static_cast<std::size_t>(device); i < count; i += page_words)
          ++first[i];
      });
    const std::size_t half = words.bytes() / 2;
    for (const int device : {device0, device1})
      WHERRY_TRY(cuMemPrefetchAsync(
          address_of(words) + (static_cast<std::size_t>(device) + pass) % 2 * half, half,
          location_of(device), 0, nullptr));
    for (std::size_t i = 2; i < words.size(); i += page_words) ++words[i];
    for (const int device : {device0, device1}) WHERRY_TRY(s.session().wait(device));
  }
  ends = true;
  watcher.join();
  CHECK_FALSE(exceeded);
  CHECK(read_stats().processor[1 + device0].evicted > 0);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    for (std::size_t own = 0; own < 3; ++own)
      if (words[i + own] != passes) FAIL("page " << i / page_words << " lost an increment");
}

TEST_CASE("evicted blocks that a coherent device uses in turns do not evict each other for ever",
          "[system]") {
  Stage& s = stage();
  const Words words{3 * capacity / 2 / sizeof(std::uint64_t)};
  const auto sweep = [&] {
    s.session().run(device0, [first = words.data(), count = words.size()] {
      for (std::size_t i = 0; i < count; i += page_words)
        *const_cast<volatile std::uint64_t*>(first + i) = first[i] + 1;
    });
  };
  const auto evicted = [] { return read_stats().processor[1 + device0].evicted; };
  sweep();
  prefetch(words, host);
  // More than fits, so some blocks are evicted.
  const std::uint64_t before = evicted();
  for (std::size_t at = 0; at < words.bytes(); at += block_bytes) {
    WHERRY_TRY(
        cuMemPrefetchAsync(address_of(words) + at, block_bytes, location_of(device0), 0, nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
  }
  REQUIRE(evicted() > before);
  // On a busy machine the thread that keeps some pages of the pool free (BackgroundEvictor) evicts
  // blocks during later sweeps, too.
  constexpr int quiet_sweeps = 4, sweeps_max = 20;
  int quiet = 0;
  for (int i = 0; i < sweeps_max && quiet < quiet_sweeps; ++i) {
    const std::uint64_t earlier = evicted();
    sweep();
    quiet = evicted() == earlier ? quiet + 1 : 0;
  }
  CHECK(quiet == quiet_sweeps);
  CHECK(s.witness().pool_bytes(1 + device0) >= capacity / 2);
}

TEST_CASE("a reset of a coherent device keeps managed memory and the program", "[system]") {
  Stage& s = stage();
  const Words words{block_words};
  s.write_pages(device0, words.data(), words.bytes(), 4);
  s.session().reset(device0);
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == 4 * words.size() / page_words);
  CHECK(pages_not_at(stage(), words, device0) == 0);
}

TEST_CASE("a child of fork() has what fork() promises beside coherent devices", "[system]") {
  Stage& s = stage();
  const Words words{block_words};
  s.write_pages(device0, words.data(), words.bytes(), 4);
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    ::_exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(s.read_pages(device0, words.data(), words.bytes()) == 4 * words.size() / page_words);
}

}  // namespace wherry::test::coherent_test
