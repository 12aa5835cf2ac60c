// Prefetching under unusual conditions: without io_uring, with other settings, and while a device
// dies.
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/child.h"
#include "support/seccomp_filter.h"
#include "support/session.h"
#include "support/stage.h"

namespace wherry::test::prefetch_process_test {

namespace {

constexpr std::size_t mib_words = (std::size_t{1} << 20) / sizeof(std::uint64_t);

void prefetch(const std::uint64_t* first, std::size_t bytes, int to) {
  WHERRY_TRY(
      cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(first), bytes, location_of(to), 0, nullptr));
}

// Prefetches memory to a device and back, whole and in parts, in a fresh process.
void go_to_and_fro() {
  Session session("capacity=64M");
  constexpr std::size_t words_count = 9 * mib_words;
  const Words words{words_count};
  const Witness witness;
  for (std::size_t i = 0; i < words_count; ++i) words[i] = i;
  for (const int to : {device0, host, device0, host}) {
    prefetch(words.data(), words.bytes(), to);
    WHERRY_TRY(cuStreamSynchronize(nullptr));
    for (std::size_t i = 0; i < words_count; i += page_words)
      expect(witness.residents(&words[i]) == bit_of(to), "a page is not where it should be");
  }
  prefetch(words.data() + 3 * page_words, 3 * mib_words * 8, device0);
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  expect(witness.pool_bytes(1) == 3 * mib_words * 8, "the device's pool has another size");
  for (std::size_t i = 0; i < words_count; ++i) expect(words[i] == i, "a word is lost");
}

}  // namespace

TEST_CASE("a device that is killed during a prefetch loses nothing, and no thread hangs",
          "[system]") {
  for (const int delay_us : {0, 300, 2000}) {
    const Outcome outcome = in_fresh_process(
        [delay_us] {
          Session session("capacity=256M");
          const Words words{64 * mib_words};
          for (std::size_t i = 0; i < words.size(); i += page_words) words[i] = i;
          prefetch(words.data(), words.bytes(), device0);
          ::usleep(static_cast<useconds_t>(delay_us));
          ::kill(device_process(0), SIGKILL);
          (void)cuStreamSynchronize(nullptr);
          for (std::size_t i = 0; i < words.size(); i += page_words)
            expect(words[i] == i, "a page is lost");
        },
        60'000);
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("without io_uring the library's own threads copy", "[system]") {
  const Outcome outcome = in_fresh_process(
      [] {
        forbid_system_call(SYS_io_uring_setup, FilterAction::refuse_eperm);
        go_to_and_fro();
      },
      60'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("prefetches work with one copier, with many, and with small pages", "[system]") {
  for (const char* copiers : {"1", "2", "7"}) {
    for (const char* pages : {"auto", "never"}) {
      const Outcome outcome = in_fresh_process(
          [copiers, pages] {
            ::setenv("WHERRY_COPIERS", copiers, 1);
            ::setenv("WHERRY_HUGE_PAGES", pages, 1);
            go_to_and_fro();
          },
          60'000);
      INFO(copiers << " copiers, huge pages " << pages << ": " << outcome.describe());
      CHECK(outcome.passed());
    }
  }
}

}  // namespace wherry::test::prefetch_process_test
