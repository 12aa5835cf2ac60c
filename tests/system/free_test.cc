// Freed memory is gone: its pages leave the pools, an access to its addresses is an error, and no
// resources pile up.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace wherry::test::free_test {
namespace {

constexpr const char* two_devices = "capacity=16M;capacity=16M";

// Checks that the process ended with a signal for a bad address, and that the library's log line
// names that address.
void check_ends_at(const Outcome& outcome) {
  INFO(outcome.describe());
  CHECK((outcome.signal == SIGSEGV || outcome.signal == SIGBUS));
  const std::string address = outcome.out.substr(0, outcome.out.find('\n'));
  REQUIRE(address.size() > 4);
  CHECK(outcome.err.find("wherry: ") != std::string::npos);
  CHECK(outcome.err.find(address) != std::string::npos);
}

// Prints the address, so that the parent knows it even if this process dies of it.
void print_address(const void* address) {
  std::printf("%p\n", address);
  std::fflush(stdout);
}

// As with few CPUs. With several files for each pool, views show parts of the arena only when
// allocations reach them: that needs more mappings, and an access elsewhere finds no mapping.
void use_one_file_for_each_pool() {
  ::setenv("WHERRY_COPIERS", "1", 1);
}

volatile std::byte sink;

TEST_CASE("reading freed memory ends the host with a signal and a line that names the address",
          "[system]") {
  check_ends_at(in_fresh_process([] {
    const Session session{two_devices};
    Managed<std::byte> memory{mebibyte};
    std::byte* const place = memory.data() + 5 * 4096;
    *place = std::byte{1};
    memory.free();
    print_address(place);
    sink = *place;
    expect(false, "freed memory could be read");
  }));
}

TEST_CASE("writing to freed memory that only a device had used ends the host with a signal",
          "[system]") {
  check_ends_at(in_fresh_process([] {
    const Session session{two_devices};
    Managed<std::byte> memory{mebibyte};
    std::byte* const place = memory.data();
    session.run(0, [place] { *place = std::byte{1}; });
    memory.free();
    print_address(place);
    *const_cast<volatile std::byte*>(place) = std::byte{2};
    expect(false, "freed memory could be written");
  }));
}

TEST_CASE("accessing an arena address that was never allocated ends the host with a signal",
          "[system]") {
  check_ends_at(in_fresh_process([] {
    use_one_file_for_each_pool();
    const Session session{two_devices};
    const Managed<std::byte> memory{4096};
    std::byte* const place = memory.data() + 64 * mebibyte;
    print_address(place);
    sink = *place;
    expect(false, "memory that was never allocated could be read");
  }));
}

TEST_CASE("a kernel that accesses freed memory fails with an illegal address", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    Managed<std::byte> memory{mebibyte};
    std::byte* const place = memory.data();
    *place = std::byte{1};
    memory.free();
    session.launch(0, 1, [place](std::size_t) { sink = *place; });
    expect(session.wait(0) == CUDA_ERROR_ILLEGAL_ADDRESS,
           "the kernel's access to freed memory was not an error");
    // The other device and the host go on.
    WHERRY_TRY(cuCtxSetCurrent(session.context(1)));
    const Managed<int> still{1};
    session.run(1, [to = still.data()] { *to = 42; });
    expect(still[0] == 42, "device 1 was harmed");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("an address that was accessed after it was freed is not handed out again", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    Managed<std::byte> memory{mebibyte};
    std::byte* const place = memory.data() + 3 * 65536;
    *place = std::byte{1};
    memory.free();
    session.launch(0, 1, [place](std::size_t) { sink = *place; });
    expect(session.wait(0) == CUDA_ERROR_ILLEGAL_ADDRESS,
           "the kernel's access to freed memory was not an error");
    WHERRY_TRY(cuCtxSetCurrent(session.context(1)));  // the other context is in error
    for (int i = 0; i < 200; ++i) {
      const Managed<std::byte> fresh{mebibyte};
      expect(place < fresh.data() || place >= fresh.data() + fresh.bytes(),
             "the address was handed out again");
      fresh[static_cast<std::size_t>(i) * 4096] = std::byte{1};
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("an address that is reused is zero on every processor", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    bool reused = false;
    const std::byte* last = nullptr;
    for (int round = 0; round < 30; ++round) {
      const Managed<std::byte> memory{mebibyte};
      reused = reused || memory.data() == last;
      last = memory.data();
      const Managed<std::size_t> dirty{2};
      for (int device = 0; device < 2; ++device) {
        session.run(device, [start = memory.data(), device, found = dirty.data() + device] {
          std::byte* const half = start + static_cast<std::size_t>(device) * mebibyte / 2;
          for (std::size_t i = 0; i < mebibyte / 2; ++i) *found += half[i] != std::byte{0} ? 1 : 0;
          std::memset(half, 0xee, mebibyte / 2);
        });
      }
      expect(dirty[0] == 0 && dirty[1] == 0, "new memory holds old contents");
      if (round % 2 == 0) std::memset(memory.data(), 0xdd, mebibyte);
    }
    expect(reused, "no address was reused: this run tests nothing");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

namespace {

// The number of mappings, when it no longer changes. On a busy machine the library's new threads
// make their stacks and heaps later, and a thread that changes a mapping may have split it.
std::size_t settled_mappings() {
  std::size_t count = count_mappings();
  (void)comes_true([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::size_t before = std::exchange(count, count_mappings());
    return before == count;
  });
  return count;
}

}  // namespace

TEST_CASE("mappings do not grow with allocations", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    use_one_file_for_each_pool();
    const Session session{two_devices};
    std::vector<std::unique_ptr<Managed<std::byte>>> live;
    // The first 100 allocations grow the program's heap and the library's tables before the count.
    for (int i = 0; i < 100; ++i) live.push_back(std::make_unique<Managed<std::byte>>(4096));
    live.reserve(10'200);
    const std::size_t before = settled_mappings();
    for (int i = 0; i < 10'000; ++i) {
      live.push_back(
          std::make_unique<Managed<std::byte>>(static_cast<std::size_t>(1 + i % 9) * 4096));
      (*live.back())[0] = std::byte{1};
    }
    for (std::size_t i = 0; i < live.size(); i += 2) live[i].reset();
    const std::size_t after = settled_mappings();
    // With the protection trap each run of pages is a mapping of its own, up to the limit on
    // mappings.
    const std::size_t more = traps_by_protection() ? 10'100 : 20;
    expect(after <= before + more,
           "mappings grew from " + std::to_string(before) + " to " + std::to_string(after));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// The next test has 33,000 faults. In an emulated machine beside other load they take more than a
// minute.
constexpr int many_faults_limit_ms = 300'000;

TEST_CASE("more separate pages than the limit on mappings allows do not fail", "[system]") {
  const Outcome outcome = in_fresh_process(
      [] {
        ::setenv("WHERRY_FAULT_REGION", "4K", 1);
        const Session session{two_devices};
        std::ifstream file{"/proc/sys/vm/max_map_count"};
        std::size_t most = 0;
        file >> most;
        if (most == 0 || most > 100'000) return;  // a machine with a raised limit
        constexpr std::size_t unit = 4096;
        const std::size_t count = most + 1000;
        const Managed<std::byte> memory{count * unit};
        // Uses every second page: neighbours would share a mapping.
        for (std::size_t i = 0; i < count; i += 2) memory[i * unit] = std::byte(i % 251);
        for (std::size_t i = 0; i < count; i += 2)
          if (memory[i * unit] != std::byte(i % 251)) expect(false, "a page has lost its contents");
        expect(count_mappings() < most, "the program has no mappings left");
      },
      many_faults_limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("memory is given back to the system when it is freed", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    const Witness witness;
    for (int round = 0; round < 50; ++round) {
      const Managed<std::byte> memory{8 * mebibyte};
      for (std::size_t i = 0; i < memory.bytes(); i += 4096) memory[i] = std::byte{1};
    }
    for (int i = 0; i < witness.processors(); ++i)
      expect(witness.pool_bytes(i) == 0, "pool " + std::to_string(i) + " still holds pages");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a copy that races with the end of its memory leaves no pages behind", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    const Witness witness;
    std::atomic<CUdeviceptr> target{0};
    std::atomic<bool> over{false};
    std::atomic<int> done{0};
    const std::vector<std::byte> data(256 << 10, std::byte{7});
    std::vector<std::thread> copiers;
    for (int i = 0; i < 2; ++i)
      copiers.emplace_back([&] {
        cuCtxSetCurrent(session.context(0));
        while (!over)
          if (const CUdeviceptr to = target;
              to != 0 && cuMemcpyHtoD(to, data.data(), data.size()) == CUDA_SUCCESS)
            ++done;
      });
    for (int round = 0; round < 1000; ++round) {
      CUdeviceptr memory = 0;
      WHERRY_TRY(round % 2 == 0 ? cuMemAllocManaged(&memory, data.size(), CU_MEM_ATTACH_GLOBAL)
                                : cuMemAlloc(&memory, data.size()));
      target = memory;
      // Frees at a varying point of the copy.
      std::this_thread::sleep_for(std::chrono::microseconds(round % 100));
      WHERRY_TRY(cuMemFree(memory));
    }
    over = true;
    for (std::thread& copier : copiers) copier.join();
    expect(done > 0, "nothing was copied");
    std::size_t left = 0;
    std::size_t total = 0;
    for (int device = 0; device < session.devices(); ++device) {
      WHERRY_TRY(cuCtxSetCurrent(session.context(device)));
      WHERRY_TRY(cuMemGetInfo(&left, &total));
      expect(left == total, "a device's pool is not empty in its own accounting");
    }
    for (int i = 0; i < witness.processors(); ++i)
      expect(witness.pool_bytes(i) == 0, "pool " + std::to_string(i) + " still holds pages");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace
}  // namespace wherry::test::free_test
