// The library starts in programs that already have threads, and several threads may start it at
// once.
#include <limits.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::threads_test {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WHERRY_TEST_WITH_ASAN
#endif
#endif
#if defined(WHERRY_TEST_WITH_ASAN) || defined(__SANITIZE_ADDRESS__)
constexpr bool with_asan = true;
#else
constexpr bool with_asan = false;
#endif

// AddressSanitizer makes stack frames larger.
const std::size_t smallest_stack = with_asan ? 256 << 10 : PTHREAD_STACK_MIN;

void require_passed(const Outcome& outcome) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("cuInit from several threads at once initializes once, and all of them succeed",
          "[system]") {
  require_passed(in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capacity=4M;capacity=4M", 1);
    constexpr int threads = 8;
    std::atomic<int> ready{0}, succeeded{0};
    std::vector<pid_t> seen(threads, -1);
    std::vector<std::thread> starting;
    for (int i = 0; i < threads; ++i) {
      starting.emplace_back([&, i] {
        ++ready;
        while (ready.load() < threads) std::this_thread::yield();
        if (cuInit(0) == CUDA_SUCCESS) ++succeeded;
        wherryGetDeviceProcess(0, &seen[static_cast<std::size_t>(i)]);
      });
    }
    for (std::thread& thread : starting) thread.join();
    expect(succeeded.load() == threads, "a cuInit failed");
    for (const pid_t device : seen) expect(device == seen[0] && device > 0, "two initializations");
    const Session session{"capacity=4M;capacity=4M"};
    const Managed<int> number{1};
    session.run(1, [to = number.data()] { *to = 42; });
    expect(number[0] == 42, "a kernel did not run");
  }));
}

TEST_CASE("cuInit works while other threads use the allocator and stdio", "[system]") {
  require_passed(in_fresh_process([] {
    std::atomic<bool> stop{false};
    std::atomic<int> ready{0};
    std::vector<std::thread> busy;
    for (int i = 0; i < 3; ++i) {
      busy.emplace_back([&] {
        std::FILE* const null = std::fopen("/dev/null", "w");
        ++ready;
        for (std::size_t n = 1; !stop.load(); ++n) {
          // AddressSanitizer's allocator is not prepared for fork(): a device could hang.
          const std::size_t count = with_asan ? 0 : n % 50;
          std::vector<std::string> strings(count, std::string(with_asan ? 0 : n % 3000, 'x'));
          std::fprintf(null, "%zu", strings.size());
        }
        std::fclose(null);
      });
    }
    while (ready.load() < 3) std::this_thread::yield();
    const Session session{"capacity=4M;capacity=4M"};
    const Managed<std::size_t> length{1};
    for (int round = 0; round < 20; ++round) {
      // Kernels can use the allocator and stdio, too.
      session.run(round % 2, [to = length.data()] {
        const std::string text(5000, 'y');
        char buffer[32];
        *to +=
            text.size() + static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, "%d", 42));
      });
    }
    stop.store(true);
    for (std::thread& thread : busy) thread.join();
    expect(length[0] == 20 * 5002, "a kernel did not run");
  }));
}

TEST_CASE("a thread with the smallest possible stack faults like any other", "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{"capacity=4M"};
    const Managed<int> absent{4096}, on_device{4096};
    session.run(0, [to = on_device.data()] {
      for (int i = 0; i < 4096; ++i) to[i] = 5;
    });
    struct Numbers {
      int* absent;
      int* on_device;
    } numbers{absent.data(), on_device.data()};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    expect(pthread_attr_setstacksize(&attributes, smallest_stack) == 0, "no such stack");
    const auto count_up = [](void* argument) -> void* {
      const auto* to = static_cast<const Numbers*>(argument);
      for (int i = 0; i < 4096; ++i) {
        ++to->absent[i];
        ++to->on_device[i];
      }
      return nullptr;
    };
    pthread_t thread;
    expect(pthread_create(&thread, &attributes, count_up, &numbers) == 0, "no thread");
    pthread_join(thread, nullptr);
    for (int i = 0; i < 4096; ++i) expect(absent[i] == 1 && on_device[i] == 6, "a number is wrong");
  }));
}

TEST_CASE("host threads and kernels of several streams share the API", "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{"capacity=16M,workers=2;capacity=16M,workers=2"};
    constexpr int threads = 6, rounds = 40;
    const Managed<std::atomic<int>> total{1};
    std::atomic<int> failures{0};
    std::vector<std::thread> working;
    for (int i = 0; i < threads; ++i) {
      working.emplace_back([&, i] {
        try {
          const int device = i % 2;
          WHERRY_TRY(cuCtxSetCurrent(session.context(device)));
          CUstream stream = nullptr;
          WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
          for (int round = 0; round < rounds; ++round) {
            const Managed<int> own{3000};
            own[0] = i;
            struct Args {
              int* own;
              std::atomic<int>* total;
            } args{own.data(), total.data()};
            const wherryKernel kernel = [](const void* block, std::size_t begin, std::size_t end) {
              const Args& given = *static_cast<const Args*>(block);
              for (std::size_t n = begin; n < end; ++n) {
                given.own[n * 20 + 1] = given.own[0] + 1;
                given.total->fetch_add(1);
              }
            };
            WHERRY_TRY(wherryLaunchKernel(stream, kernel, &args, sizeof args, 10));
            WHERRY_TRY(cuStreamSynchronize(stream));
            for (std::size_t n = 0; n < 10; ++n)
              expect(own[n * 20 + 1] == i + 1, "a write was lost");
          }
          WHERRY_TRY(cuStreamDestroy(stream));
        } catch (const std::exception& error) {
          std::fprintf(stderr, "thread %d: %s\n", i, error.what());
          ++failures;
        }
      });
    }
    for (std::thread& thread : working) thread.join();
    expect(failures.load() == 0, "a thread failed");
    expect(total[0].load() == threads * rounds * 10, "an increment was lost");
  }));
}

}  // namespace
}  // namespace wherry::test::threads_test
