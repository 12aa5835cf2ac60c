// Copies under unusual conditions: concurrently with faults, prefetches and evictions, while a
// device dies, and without io_uring.
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/seccomp_filter.h"
#include "support/stage.h"

namespace wherry::test::copy_process_test {

TEST_CASE("a copy into a full device goes to the host instead", "[system]") {
  const Outcome outcome = in_fresh_process(
      [] {
        Session session("capacity=4M");
        const Witness witness;
        CUdeviceptr all = 0;
        WHERRY_TRY(cuMemAlloc(&all, 4 * mebibyte));
        const Words words{page_words};
        const auto data = numbered(page_words);
        WHERRY_TRY(cuMemcpy(address_of(words.data()), address_of(data.data()), page_bytes));
        expect(witness.residents(words.data()) == bit_of(host), "the page is elsewhere");
        expect(std::equal(data.begin(), data.end(), words.data()), "a word is lost");
      },
      60'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("copies concurrent with faults, prefetches and evictions lose and tear nothing",
          "[system]") {
  const Outcome outcome = in_fresh_process(
      [] {
        // The device holds less than the memory's size, so pages are evicted, too.
        Session session("capacity=6M,workers=2;capacity=64M,workers=2");
        constexpr std::size_t pages = 2048;
        const Words words{pages * page_words};
        constexpr std::size_t step_count = 40;
        std::atomic<bool> stop{false};
        // All processors increment the first words of each page. The other words hold what copies
        // wrote.
        std::thread prefetches([&] {
          WHERRY_TRY(cuCtxSetCurrent(session.context(1)));
          std::mt19937 random(static_cast<unsigned>(seed()));
          while (!stop) {
            const std::size_t first = random() % pages;
            const std::size_t count = 1 + random() % std::min<std::size_t>(pages - first, 700);
            const int to = static_cast<int>(random() % 3) - 1;
            WHERRY_TRY(cuMemPrefetchAsync(address_of(&words[first * page_words]),
                                          count * page_bytes, location_of(to), 0,
                                          CU_STREAM_PER_THREAD));
            WHERRY_TRY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
          }
        });
        const auto add = [first = words.data()](std::size_t i) {
          __atomic_fetch_add(first + i * page_words, 1, __ATOMIC_RELAXED);
        };
        const std::size_t rounds = scaled(10);
        std::uint64_t added = 0;
        std::size_t wrong = 0;
        std::mt19937 random(static_cast<unsigned>(seed()) + 1);
        for (std::size_t round = 0; round < rounds; ++round) {
          session.launch(0, pages, add);
          session.launch(1, pages, add);
          added += 2;
          for (std::size_t step = 0; step < step_count; ++step) {
            // Copies words 8 to 263 of some pages out and back.
            const std::size_t first = random() % pages;
            const std::size_t count = 1 + random() % std::min<std::size_t>(pages - first, 500);
            constexpr std::size_t row = 256;
            const auto data = numbered(count * row, random());
            CUDA_MEMCPY2D there{};
            there.srcMemoryType = there.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
            there.srcDevice = address_of(data.data());
            there.srcPitch = row * sizeof(std::uint64_t);
            there.dstDevice = address_of(&words[first * page_words]);
            there.dstXInBytes = 8 * sizeof(std::uint64_t);
            there.dstPitch = page_bytes;
            there.WidthInBytes = row * sizeof(std::uint64_t);
            there.Height = count;
            WHERRY_TRY(cuMemcpy2DAsync(&there, CU_STREAM_PER_THREAD));
            std::vector<std::uint64_t> back(count * row);
            CUDA_MEMCPY2D again{};
            again.srcMemoryType = again.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
            again.srcDevice = there.dstDevice;
            again.srcXInBytes = there.dstXInBytes;
            again.srcPitch = there.dstPitch;
            again.dstDevice = address_of(back.data());
            again.dstPitch = there.srcPitch;
            again.WidthInBytes = there.WidthInBytes;
            again.Height = count;
            WHERRY_TRY(cuMemcpy2DAsync(&again, CU_STREAM_PER_THREAD));
            if (back != data) ++wrong;
            __atomic_fetch_add(&words[(random() % pages) * page_words + 1], 1, __ATOMIC_RELAXED);
          }
          WHERRY_TRY(session.wait(0));
          WHERRY_TRY(session.wait(1));
        }
        stop = true;
        prefetches.join();
        expect(wrong == 0, "a copy came back changed");
        std::size_t lost = 0;
        std::uint64_t by_host = 0;
        for (std::size_t i = 0; i < pages; ++i) {
          if (words[i * page_words] != added) ++lost;
          by_host += words[i * page_words + 1];
        }
        expect(lost == 0, "increments of devices are lost");
        expect(by_host == rounds * step_count, "increments of the host are lost");
      },
      180'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a device that is killed during copies loses nothing, and no thread hangs", "[system]") {
  for (const int delay_us : {0, 300, 3000}) {
    const Outcome outcome = in_fresh_process(
        [delay_us] {
          Session session("capacity=64M");
          const Words words{16 * mebibyte / 8};
          const auto data = numbered(words.size());
          const pid_t device = device_process(0);
          WHERRY_TRY(cuMemcpy(address_of(words.data()), address_of(data.data()), words.bytes()));
          std::thread killer([&] {
            ::usleep(static_cast<useconds_t>(delay_us));
            ::kill(device, SIGKILL);
          });
          std::vector<std::uint64_t> back(words.size());
          // Copies that start after the device process has ended are refused.
          for (int i = 0; i < 5; ++i)
            if (cuMemcpy(address_of(words.data()), address_of(data.data()), words.bytes()) !=
                    CUDA_SUCCESS ||
                cuMemcpy(address_of(back.data()), address_of(words.data()), words.bytes()) !=
                    CUDA_SUCCESS)
              break;
          killer.join();
          expect(std::equal(data.begin(), data.end(), words.data()), "a word is lost");
        },
        60'000);
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("without io_uring, process_vm_readv, or large files the copies are the same",
          "[system]") {
  for (const int what : {0, 1, 2}) {
    const Outcome outcome = in_fresh_process(
        [what] {
          if (what == 0) forbid_system_call(SYS_io_uring_setup, FilterAction::refuse_eperm);
          if (what == 1) forbid_system_call(SYS_process_vm_readv, FilterAction::refuse_eperm);
          Session session("capacity=64M");
          if (what == 2) {
            const rlimit small{4096, 4096};
            expect(::setrlimit(RLIMIT_FSIZE, &small) == 0, "no limit");
          }
          const auto data = numbered(5 * mebibyte / 8);
          std::vector<std::uint64_t> back(data.size());
          const Words words{data.size()};
          CUdeviceptr memory = 0;
          WHERRY_TRY(cuMemAlloc(&memory, words.bytes()));
          WHERRY_TRY(cuMemcpy(address_of(back.data()), address_of(data.data()), words.bytes()));
          expect(back == data, "a copy from host to host changed the data");
          WHERRY_TRY(cuMemcpy(memory, address_of(data.data()), words.bytes()));
          WHERRY_TRY(cuMemcpy(address_of(words.data()), memory, words.bytes()));
          std::fill(back.begin(), back.end(), 0);
          WHERRY_TRY(cuMemcpy(address_of(back.data()), address_of(words.data()), words.bytes()));
          expect(back == data, "a copy by way of a device changed the data");
          const CUresult bad = cuMemcpy(16, address_of(data.data()), words.bytes());
          expect(bad == CUDA_ERROR_INVALID_VALUE, "a copy from address 16 is not refused");
        },
        60'000);
    INFO(what << ": " << outcome.describe());
    CHECK(outcome.passed());
  }
}

}  // namespace wherry::test::copy_process_test
