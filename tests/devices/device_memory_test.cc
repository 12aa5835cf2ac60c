// Which memory of the application a device can access, and which not.
#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "os/memory/address_map.h"
#include "os/memory/loader_memory.h"
#include "support/catch.h"
#include "support/test_device.h"

namespace wherry::test::device_memory_test {
namespace {

using Kind = impl::DeviceFailure::Kind;

int initialized = 11;
int zeroed[3 << 20];  // large: devices do not see other mappings of this size
thread_local int local_to_thread = 5;

// Whether an access of the device to the address is illegal.
bool is_illegal(TestDevice& device, const volatile void* address) {
  const auto* byte = static_cast<const volatile char*>(address);
  const auto failure = device.run_once([byte] { (void)*byte; });
  if (!failure) return false;
  REQUIRE(failure->kind == Kind::illegal_address);
  REQUIRE(failure->address == reinterpret_cast<std::uintptr_t>(byte));
  return true;
}

void* map_private(std::size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  std::memset(mapped, 1, bytes);
  return mapped;
}

bool hides_memory() {
  return !impl::runs_under_sanitizer() && impl::uses_standard_malloc();
}

TEST_CASE("A variable on the host's main stack is an illegal address") {
  if (!hides_memory()) return;
  volatile int local = 1;
  TestArena arena;
  TestDevice device(arena);
  CHECK(is_illegal(device, &local));
}

TEST_CASE("A variable on the stack of the thread that starts the device is an illegal address") {
  if (!hides_memory()) return;
  bool illegal = false;
  std::thread([&] {
    volatile int local[16 << 10] = {
        1};  // extends below the pages that the stack shares with thread-local variables
    TestArena arena;
    TestDevice device(arena);
    illegal = is_illegal(device, &local[0]);
  }).join();
  CHECK(illegal);
}

TEST_CASE("A variable on another thread's stack is an illegal address") {
  if (!hides_memory()) return;
  std::atomic<const volatile int*> variable = nullptr;
  std::atomic<bool> stop = false;
  std::thread other([&] {
    volatile int local = 1;
    variable = &local;
    variable.notify_all();
    stop.wait(false);
  });
  variable.wait(nullptr);
  TestArena arena;
  TestDevice device(arena);
  CHECK(is_illegal(device, variable.load()));
  stop = true;
  stop.notify_all();
  other.join();
}

TEST_CASE("A large block of malloc and a large mapping are illegal addresses, first to last byte") {
  if (!hides_memory()) return;
  constexpr std::size_t bytes = 8 << 20;
  auto* block = static_cast<char*>(std::malloc(bytes));
  std::memset(block, 1, bytes);
  auto* mapped = static_cast<char*>(map_private(bytes));
  TestArena arena;
  for (char* place : {block, block + bytes / 2, block + bytes - 1, mapped, mapped + bytes - 1}) {
    TestDevice device(arena);
    CHECK(is_illegal(device, place));
  }
  std::free(block);
  ::munmap(mapped, bytes);
}

TEST_CASE("Large shared memory of the application is an illegal address") {
  if (!hides_memory()) return;
  constexpr std::size_t bytes = 2 << 20;
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  TestArena arena;
  TestDevice device(arena);
  CHECK(is_illegal(device, mapped));
  ::munmap(mapped, bytes);
}

TEST_CASE(
    "Memory that the host maps after the device has started is never accessible to the device") {
  if (!hides_memory()) return;
  TestArena arena;
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{16} << 20}) {
    TestDevice device(arena);
    // The device has mappings of its own now, and makes more.
    REQUIRE_FALSE(device.run_once([] { std::vector<char> own(64 << 20, 'x'); }));
    void* mapped = map_private(bytes);
    CHECK(is_illegal(device, mapped));
    ::munmap(mapped, bytes);
  }
}

TEST_CASE(
    "After an unmapping before the start, a later mapping at the same place is illegal, too") {
  if (!hides_memory()) return;
  void* hole = map_private(4 << 20);
  ::munmap(hole, 4 << 20);
  TestArena arena;
  TestDevice device(arena);
  void* again = ::mmap(hole, 4 << 20, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  // The arena's or the device's bookkeeping may have been mapped there.
  if (again != MAP_FAILED) {
    CHECK(is_illegal(device, again));
    ::munmap(again, 4 << 20);
  }
}

TEST_CASE("Every mapping of a device is inherited, its arena, or inside its window") {
  if (!hides_memory()) return;
  TestArena arena;
  TestDevice device(arena);
  const auto* result = arena.take<std::uintptr_t>(8);
  auto* target = const_cast<std::uintptr_t*>(result);
  CHECK_FALSE(device.run_once([target] {
    for (int i = 0; i < 8; ++i)
      target[i] = reinterpret_cast<std::uintptr_t>(::mmap(nullptr, std::size_t{1} << (12 + 2 * i),
                                                          PROT_READ | PROT_WRITE,
                                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }));
  const std::string map = impl::read_address_map();
  for (int i = 0; i < 8; ++i) {
    // The host reserves the window by one inaccessible mapping.
    const auto host = impl::find_mapping(map, result[i]);
    REQUIRE(host);
    CHECK_FALSE(host->accessible());
    CHECK(host->range.size() >= std::size_t{64} << 30);
  }
}

TEST_CASE("Small heap blocks, static data and thread-local variables are snapshots") {
  auto small = std::make_unique<int>(21);
  initialized = 12;
  zeroed[2 << 20] = 13;
  TestArena arena;
  TestDevice device(arena);
  int* seen = arena.take<int>(4);
  const int* heap = small.get();
  const int* local = &local_to_thread;
  // Writes after the fork: the device keeps the old values.
  *small = 99;
  initialized = 99;
  zeroed[2 << 20] = 99;
  CHECK_FALSE(device.run_once([=] {
    seen[0] = *heap;
    seen[1] = initialized;
    seen[2] = zeroed[2 << 20];
    seen[3] = *local;
  }));
  CHECK(seen[0] == 21);
  CHECK(seen[1] == 12);
  CHECK(seen[2] == 13);
  CHECK(seen[3] == 5);
}

TEST_CASE("A kernel's stores to the snapshot stay in the device") {
  auto small = std::make_unique<int>(1);
  initialized = 1;
  TestArena arena;
  TestDevice device(arena);
  int* heap = small.get();
  CHECK_FALSE(device.run_once([heap] { *heap = initialized = 2; }));
  CHECK(*small == 1);
  CHECK(initialized == 1);
}

TEST_CASE("Blocks from another thread's malloc arena are snapshots, and malloc still works") {
  int* block = nullptr;
  std::atomic<bool> stop = false;
  std::atomic<int> ready = 0;
  // The device starts while others allocate, except under a sanitizer: a lock of its allocator that
  // a thread holds at the fork stays locked in the device (1 of 100 with GCC 12).
  const int threads_ready = impl::runs_under_sanitizer() ? 6 : 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      // Makes the malloc arena's heap so large that devices would not see other mappings like it.
      std::vector<std::unique_ptr<char[]>> blocks;
      for (int n = 0; n < 100; ++n) blocks.push_back(std::make_unique<char[]>(50'000));
      if (i == 0) block = new int(31);
      if (i == 0 || threads_ready != 1) {
        ++ready;
        ready.notify_all();
      }
      stop.wait(false);
    });
  }
  for (int now = 0; now != threads_ready; now = ready) ready.wait(now);
  TestArena arena;
  TestDevice device(arena, 0, 4);
  int* seen = arena.take<int>(1);
  CHECK_FALSE(device.run_once([=] { *seen = *block; }));
  CHECK(*seen == 31);
  CHECK_FALSE(device.run(64, [](std::size_t i) {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int n = 0; n < 200; ++n) {
      blocks.push_back(std::make_unique<char[]>(1000 + 100 * i));
      std::memset(blocks.back().get(), 1, 1000 + 100 * i);
    }
  }));
  stop = true;
  stop.notify_all();
  for (auto& thread : threads) thread.join();
  delete block;
}

TEST_CASE("The environment and the program's name work in a kernel") {
  ::setenv("WHERRY_TEST_SET_LATER", "later", 1);
  TestArena arena;
  TestDevice device(arena);
  char* seen = arena.take<char>(4096);
  CHECK_FALSE(device.run_once([seen] {
    const char* path = std::getenv("PATH");
    std::strcpy(seen, std::getenv("WHERRY_TEST_SET_LATER"));
    std::strcat(seen, path != nullptr && *path == '/' ? " path " : " none ");
    std::strcat(seen, program_invocation_short_name);
  }));
  CHECK(std::string(seen) == std::string("later path ") + program_invocation_short_name);
}

TEST_CASE("The auxiliary vector works in a kernel, and so does loading a library by name") {
  TestArena arena;
  TestDevice device(arena);
  struct Seen {
    unsigned long page_bytes;
    char platform[32];
    bool was_loaded;
    bool loaded;
  };
  auto* seen = arena.take<Seen>(1);
  CHECK_FALSE(device.run_once([seen] {
    const char* name = "libanl.so.1";  // from the C library's package; no program uses it any more
    seen->page_bytes = ::getauxval(AT_PAGESZ);
    if (const auto platform = ::getauxval(AT_PLATFORM))
      std::strncpy(seen->platform, reinterpret_cast<const char*>(platform), 31);
    seen->was_loaded = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr;
    seen->loaded = ::dlopen(name, RTLD_NOW) != nullptr;
  }));
  CHECK(seen->page_bytes == 4096);
  CHECK(std::string(seen->platform) == reinterpret_cast<const char*>(::getauxval(AT_PLATFORM)));
  CHECK_FALSE(seen->was_loaded);
  CHECK(seen->loaded);
}

TEST_CASE("Devices start repeatedly without using up the host's mappings or descriptors") {
  TestArena arena;
  const auto count = [] {
    const std::string map = impl::read_address_map();
    return std::count(map.begin(), map.end(), '\n');
  };
  { TestDevice device(arena); }
  const auto mappings = count();
  const int next_descriptor = ::dup(STDERR_FILENO);
  ::close(next_descriptor);
  for (int i = 0; i < 20; ++i) TestDevice device(arena);
  CHECK(count() <= mappings + 1);
  const int descriptor = ::dup(STDERR_FILENO);
  ::close(descriptor);
  CHECK(descriptor == next_descriptor);
}

}  // namespace
}  // namespace wherry::test::device_memory_test
