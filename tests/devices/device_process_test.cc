#include "devices/device_process.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/test_device.h"
#include "support/witness.h"

namespace wherry::test::device_process_test {
namespace {

using Kind = impl::DeviceFailure::Kind;

TEST_CASE("A kernel's stores are in the host's memory when its launch is complete") {
  TestArena arena;
  TestDevice device(arena);
  int* values = arena.take<int>(1000);
  CHECK_FALSE(device.run(1000, [values](std::size_t i) { values[i] = static_cast<int>(i) + 1; }));
  for (int i = 0; i < 1000; ++i) REQUIRE(values[i] == i + 1);
}

TEST_CASE("A kernel sees what the host stored before the launch") {
  TestArena arena;
  TestDevice device(arena);
  int* values = arena.take<int>(2);
  values[0] = 41;
  CHECK_FALSE(device.run_once([values] { values[1] = values[0] + 1; }));
  CHECK(values[1] == 42);
}

TEST_CASE("The parts of a launch cover its items exactly once, on several workers") {
  TestArena arena;
  TestDevice device(arena, 0, 3);
  constexpr std::size_t items = 10'007;
  auto* runs = arena.take<std::atomic<int>>(items);
  auto* pieces = arena.take<std::atomic<int>>(1);
  struct Args {
    std::atomic<int>* runs;
    std::atomic<int>* pieces;
  } args{runs, pieces};
  const auto kernel = [](const void* pointer, std::size_t begin, std::size_t end) {
    const auto& given = *static_cast<const Args*>(pointer);
    ++*given.pieces;
    for (std::size_t i = begin; i < end; ++i) ++given.runs[i];
  };
  CHECK_FALSE(device.wait(device.post(kernel, &args, sizeof args, items)));
  CHECK(*pieces == 3);
  for (std::size_t i = 0; i < items; ++i) REQUIRE(runs[i] == 1);
}

TEST_CASE("Several launches run at once when workers are free") {
  TestArena arena;
  TestDevice device(arena, 0, 2);
  auto* met = arena.take<std::atomic<int>>(1);
  // Each kernel waits for the other: if they ran one after the other, they would never end.
  const auto kernel = [](const void* pointer, std::size_t, std::size_t) {
    auto& both = **static_cast<std::atomic<int>* const*>(pointer);
    ++both;
    while (both < 2) std::this_thread::yield();
  };
  const auto first = device.post(kernel, &met, sizeof met, 1);
  const auto second = device.post(kernel, &met, sizeof met, 1);
  CHECK_FALSE(device.wait(first));
  CHECK_FALSE(device.wait(second));
}

TEST_CASE("More launches than slots all run") {
  TestArena arena;
  TestDevice device(arena);
  auto* sum = arena.take<std::atomic<int>>(1);
  const auto kernel = [](const void* pointer, std::size_t begin, std::size_t end) {
    **static_cast<std::atomic<int>* const*>(pointer) += static_cast<int>(end - begin);
  };
  std::uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) last = device.post(kernel, &sum, sizeof sum, 3);
  for (std::uint64_t id = 1; id <= last; ++id) REQUIRE_FALSE(device.wait(id));
  CHECK(*sum == 3000);
}

TEST_CASE("Arguments are copied when the launch is posted") {
  TestArena arena;
  TestDevice device(arena);
  struct Args {
    std::byte* target;
    std::byte bytes[4096 - sizeof(void*)];
  } args{arena.take<std::byte>(4096), {}};
  for (auto& byte : args.bytes) byte = std::byte{0x5a};
  const auto kernel = [](const void* pointer, std::size_t, std::size_t) {
    const auto& given = *static_cast<const Args*>(pointer);
    for (std::size_t i = 0; i < sizeof given.bytes; ++i) given.target[i] = given.bytes[i];
  };
  std::byte* target = args.target;
  const auto id = device.post(kernel, &args, sizeof args, 1);
  args = {};
  CHECK_FALSE(device.wait(id));
  CHECK(target[0] == std::byte{0x5a});
  CHECK(target[sizeof args.bytes - 1] == std::byte{0x5a});
}

TEST_CASE("Device processes and their workers have the device's name") {
  TestArena arena;
  TestDevice device(arena, 3);
  const auto comm = [](const std::string& path) {
    std::string name;
    std::getline(std::ifstream{path}, name);
    return name;
  };
  const std::string process = "/proc/" + std::to_string(device.pid());
  CHECK(comm(process + "/comm") == "wherry-dev3");
  CHECK_FALSE(device.run_once([] {}));
}

TEST_CASE("Memory of the arena beyond its open part is illegal until it is opened") {
  TestArena arena;
  std::byte* beyond = reinterpret_cast<std::byte*>(arena.base()) + TestDevice::open_bytes;
  {
    TestDevice device(arena);
    const auto failure = device.run_once([beyond] { *beyond = std::byte{1}; });
    REQUIRE(failure);
    CHECK(failure->kind == Kind::illegal_address);
    CHECK(failure->address == reinterpret_cast<std::uintptr_t>(beyond));
  }
  TestDevice device(arena);
  REQUIRE(device.process().open_arena(TestDevice::twice_open) == 0);
  CHECK_FALSE(device.run_once([beyond] { *beyond = std::byte{2}; }));
  CHECK(*beyond == std::byte{2});
}

TEST_CASE("A forbidden page is an illegal address, its neighbour is not") {
  TestArena arena;
  TestDevice device(arena);
  int* pages = arena.take<int>(2 * 1024);
  const auto address = reinterpret_cast<std::uintptr_t>(pages);
  REQUIRE(device.process().forbid(address, 4096) == 0);
  CHECK_FALSE(device.run_once([pages] { pages[1024] = 1; }));
  const auto failure = device.run_once([pages] { pages[0] = 1; });
  REQUIRE(failure);
  CHECK(failure->address == address);
}

TEST_CASE("A command to a device that has ended returns ESRCH") {
  TestArena arena;
  TestDevice device(arena);
  device.process().stop();
  CHECK(device.process().open_arena(TestDevice::twice_open) == ESRCH);
  CHECK_FALSE(is_running(device.pid()));
}

TEST_CASE("Stopping a device ends it even while a kernel runs forever") {
  TestArena arena;
  TestDevice device(arena);
  auto* started = arena.take<std::atomic<int>>(1);
  const auto kernel = [](const void* pointer, std::size_t, std::size_t) {
    **static_cast<std::atomic<int>* const*>(pointer) = 1;
    for (;;) ::pause();
  };
  device.post(kernel, &started, sizeof started, 1);
  while (*started == 0) std::this_thread::yield();
  device.process().stop();
  CHECK_FALSE(is_running(device.pid()));
}

TEST_CASE("A stopped device process is reaped: its id is free again") {
  TestArena arena;
  TestDevice device(arena);
  const pid_t pid = device.pid();
  device.process().stop();
  CHECK_FALSE(process_status(pid, "State"));
}

TEST_CASE("Output of a kernel has been written when its launch is complete") {
  const auto outcome = in_fresh_process([] {
    TestArena arena;
    TestDevice device(arena);
    if (device.run(1, [](std::size_t) { std::printf("from the device\n"); })) std::abort();
    ::_exit(0);
  });
  INFO(outcome.describe());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "from the device\n");
}

TEST_CASE("A kernel may allocate, start threads and throw what it catches") {
  TestArena arena;
  TestDevice device(arena);
  int* result = arena.take<int>(1);
  CHECK_FALSE(device.run_once([result] {
    std::vector<std::string> strings(1000, std::string(100, 'x'));
    std::vector<char> large(8 << 20, 'y');
    std::atomic<int> sum = 0;
    std::thread one([&] { sum += static_cast<int>(strings.size()); });
    std::thread two([&] { sum += large.back(); });
    one.join();
    two.join();
    try {
      throw std::runtime_error("caught");
    } catch (const std::exception& error) {
      sum += error.what()[0];
    }
    *result = sum;
  }));
  CHECK(*result == 1000 + 'y' + 'c');
}

TEST_CASE("A device starts beside one and beside several threads (time printed)") {
  TestArena arena;
  for (const bool threads : {false, true}) {
    std::atomic<bool> stop = false;
    std::thread other;
    if (threads) other = std::thread([&] { stop.wait(false); });
    double best_ms = 1e9;
    for (int i = 0; i < 10; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      TestDevice device(arena);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - begin;
      best_ms = std::min(best_ms, taken.count());
      CHECK(is_running(device.pid()));
    }
    std::printf("start of a device, %s: %.2f ms (best of 10)\n",
                threads ? "several threads" : "one thread", best_ms);
    stop = true;
    stop.notify_all();
    if (other.joinable()) other.join();
  }
}

}  // namespace
}  // namespace wherry::test::device_process_test
