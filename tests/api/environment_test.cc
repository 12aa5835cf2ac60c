// Environment variables of CUDA, each in a process of its own.
#include <sys/mman.h>
#include <unistd.h>

#include <wherry/cuda_runtime_api.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/session.h"

namespace wherry::test::environment_test {
namespace {

constexpr const char* three_devices = "capacity=64M;capacity=32M;capacity=16M";

// Runs `body` in a fresh process with CUDA_VISIBLE_DEVICES set to `list`.
template <typename Body>
void with_visible(const std::string& list, const Body& body) {
  const Outcome outcome = in_fresh_process([&] {
    ::setenv("WHERRY_DEVICES", three_devices, 1);
    ::setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
    body();
  });
  INFO(list << ": " << outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err.empty());
}

// In MiB.
std::size_t capacity_of(int device) {
  std::size_t bytes = 0;
  WHERRY_TRY(cuDeviceTotalMem(&bytes, device));
  return bytes >> 20;
}

std::string uuid_of(int device) {
  CUuuid uuid;
  WHERRY_TRY(cuDeviceGetUuid(&uuid, device));
  char text[16];
  std::snprintf(text, sizeof text, "GPU-%02hhx%02hhx", uuid.bytes[0], uuid.bytes[1]);
  return text;
}

std::string name_of_device(int device) {
  char name[64];
  WHERRY_TRY(cuDeviceGetName(name, sizeof name, device));
  return name;
}

// How many pools of devices the process has open. All files of a pool have the same name.
std::size_t device_pools() {
  std::set<std::string> pools;
  for (const int fd : open_descriptors())
    if (const std::string name = file_of_descriptor(fd);
        name.find("wherry-pool-dev") != std::string::npos)
      pools.insert(name);
  return pools.size();
}

// Flags for the host and a kernel, in shared memory that is not managed.
struct Board {
  std::atomic<bool> go = false;
  std::atomic<bool> done = false;
};

Board* shared_board() {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED, "mmap");
  return new (memory) Board;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES: a program sees the listed devices, in this order, and no others") {
  with_visible("2,0", [] {
    WHERRY_TRY(cuInit(0));
    int count = 0;
    WHERRY_TRY(cuDeviceGetCount(&count));
    expect(count == 2, "two devices");
    expect(device_pools() == 2, "two pools");
    expect(capacity_of(0) == 16 && capacity_of(1) == 64,
           "the devices are not the third and the first");
    // A device's bus id and name do not depend on which devices are visible.
    char bus_id[32];
    WHERRY_TRY(cuDeviceGetPCIBusId(bus_id, sizeof bus_id, 0));
    expect(std::string(bus_id) == "0000:00:02.0", bus_id);
    expect(name_of_device(0).starts_with("Wherry device 2"), name_of_device(0));
    CUdevice device = -1;
    expect(cuDeviceGet(&device, 2) == CUDA_ERROR_INVALID_DEVICE, "there is a third device");
    expect(cuDeviceGetByPCIBusId(&device, "0:0:1.0") == CUDA_ERROR_INVALID_DEVICE,
           "a hidden device is found by its bus id");
    // Kernels run on both visible devices, on each one in its own process.
    const Session session(three_devices);
    expect(session.devices() == 2, "the session does not have two contexts");
    const Managed<int> memory(2);
    for (int i = 0; i < 2; ++i)
      session.run(i, [&at = memory[static_cast<std::size_t>(i)]] { at = ::getpid(); });
    expect(memory[0] == device_process(0) && memory[1] == device_process(1), "two processes");
  });
}

TEST_CASE("CUDA_VISIBLE_DEVICES: a uuid, or its beginning, means the same device everywhere") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  with_visible("0,1,2", [&] {
    WHERRY_TRY(cuInit(0));
    const std::string list = uuid_of(2) + "," + uuid_of(1) + "\n";
    expect(::write(ends[1], list.data(), list.size()) == static_cast<ssize_t>(list.size()), "pipe");
  });
  char text[64] = {};
  REQUIRE(::read(ends[0], text, sizeof text - 1) > 0);
  with_visible(text, [&] {
    WHERRY_TRY(cuInit(0));
    int count = 0;
    WHERRY_TRY(cuDeviceGetCount(&count));
    expect(count == 2 && capacity_of(0) == 16 && capacity_of(1) == 32,
           "the devices are not the third and the second");
    expect(uuid_of(0) + "," + uuid_of(1) + "\n" == text, "a device's uuid depends on the list");
  });
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("CUDA_VISIBLE_DEVICES: without a device the library does not start") {
  for (const char* list : {"", "-1", "3", "1,1"}) {
    with_visible(list, [] {
      expect(cuInit(0) == CUDA_ERROR_NO_DEVICE, "cuInit");
      int count = 5;
      expect(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && count == 5,
             "the library has started");
      expect(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0, "none");
      expect(cudaGetLastError() == cudaErrorNoDevice, "remembered");
      expect(device_pools() == 0, "a pool of a device exists");
    });
  }
}

TEST_CASE("CUDA_VISIBLE_DEVICES: unset means all") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", three_devices, 1);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    WHERRY_TRY(cuInit(0));
    int count = 0;
    WHERRY_TRY(cuDeviceGetCount(&count));
    expect(count == 3, "three");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("CUDA_LAUNCH_BLOCKING=1: a launch returns when its kernel has finished, with its error") {
  const Outcome outcome = in_fresh_process([] {
    Board* board = shared_board();
    ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    const Session session("capacity=64M");
    session.launch(0, 1, [board](std::size_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      board->done = true;
    });
    expect(board->done, "the kernel has not run");
    bool failed = false;
    try {
      session.launch(0, 1, [](std::size_t) { *reinterpret_cast<volatile int*>(16) = 1; });
    } catch (const std::exception& error) {
      failed = std::string(error.what()).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos;
    }
    expect(failed, "the launch did not return the kernel's error");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("without CUDA_LAUNCH_BLOCKING a launch returns before its kernel has finished") {
  for (const char* value : {"", "0"}) {
    const Outcome outcome = in_fresh_process([value] {
      Board* board = shared_board();
      ::setenv("CUDA_LAUNCH_BLOCKING", value, 1);
      const Session session("capacity=64M");
      session.launch(0, 1, [board](std::size_t) {
        for (int i = 0; i < 10'000 && !board->go; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        board->done = board->go.load();
      });
      board->go = true;
      WHERRY_TRY(session.wait(0));
      expect(board->done, "the launch waited for its kernel");
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

}  // namespace wherry::test::environment_test
