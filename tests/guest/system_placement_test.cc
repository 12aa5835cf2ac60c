// On a machine with three NUMA nodes, two of them the host's, memory that the library did not
// allocate goes to the nodes that the program names. The device is on the third node, which has no
// CPUs, and shares the program's page table.
#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/locations.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::locations::system_placement_test {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 24;
constexpr std::size_t length = pages * page;
constexpr int device_node = 2;

const Session& session() {
  static const bool configured = ::setenv("WHERRY_HOST_NODES", "0,1", 1) == 0;
  expect(configured, "setenv");
  static const Session the_session("kind=coherent,node=2,capacity=16M");
  return the_session;
}

class Mapped {
 public:
  explicit Mapped(int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1, void* where = nullptr) {
    session();
    data_ = static_cast<char*>(::mmap(where, length, PROT_READ | PROT_WRITE, flags, file, 0));
    expect(data_ != MAP_FAILED, "mmap");
  }
  ~Mapped() { ::munmap(data_, length); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  char* data() const { return data_; }

 private:
  char* data_;
};

void advise(const void* memory, CUmem_advise advice, CUmemLocation where = host) {
  WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(memory), length, advice, where));
}

void prefetch(const void* memory, CUmemLocation where, std::size_t bytes = length) {
  WHERRY_TRY(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(memory), bytes, where, 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

// How many of the pages are on this node.
std::size_t pages_on(int node, const char* memory, std::size_t bytes = length) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < bytes; i += page)
    if (mapped_node(::getpid(), memory + i) == node) ++count;
  return count;
}

// How many pages Linux has moved on this machine.
std::uint64_t moved_pages() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;)
    if (name == "pgmigrate_success") return value;
  throw std::runtime_error("/proc/vmstat has no pgmigrate_success");
}

// The mode of the memory policy of the mapping at the address.
int policy_of(const void* memory) {
  int mode = -1;
  expect(::get_mempolicy(&mode, nullptr, 0, const_cast<void*>(memory), MPOL_F_ADDR) == 0,
         "get_mempolicy");
  return mode;
}
// MPOL_PREFERRED_MANY, which older headers lack.
constexpr int prefers_nodes = 5;

int preferred_type(const void* memory) {
  int type = -1;
  WHERRY_TRY(cuMemRangeGetAttribute(&type, sizeof type,
                                    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
                                    reinterpret_cast<CUdeviceptr>(memory), length));
  return type;
}

}  // namespace

TEST_CASE("pages of malloc move to the device's node and back, with their contents", "[guest]") {
  session();
  void* allocated = nullptr;
  REQUIRE(::posix_memalign(&allocated, page, length) == 0);
  char* const memory = static_cast<char*>(allocated);
  std::memset(memory, 'm', length);
  REQUIRE(pages_on(device_node, memory) == 0);
  for (const int node : {1, 0, 1}) {
    CAPTURE(node);
    prefetch(memory, device(0));
    CHECK(pages_on(device_node, memory) == pages);
    prefetch(memory, host_node(node));
    CHECK(pages_on(node, memory) == pages);
    // The pages are on a node of the host already, and stay there.
    prefetch(memory, host);
    CHECK(pages_on(node, memory) == pages);
  }
  prefetch(memory + 2 * page, device(0), 3 * page);
  CHECK(pages_on(device_node, memory) == 3);
  CHECK(pages_on(device_node, memory + 2 * page, 3 * page) == 3);
  prefetch(memory, host);
  CHECK(pages_on(device_node, memory) == 0);
  for (std::size_t i = 0; i < length; ++i) REQUIRE(memory[i] == 'm');
  std::free(allocated);
}

TEST_CASE("untouched pages are created on the node that they are prefetched to", "[guest]") {
  // The pages are created there, not moved there: Linux counts fewer moves than pages in one
  // attempt at least. In others it may have moved pages for its own purposes.
  constexpr int attempts = 10;
  std::uint64_t fewest_moved = pages;
  for (int i = 0; i < attempts && fewest_moved >= pages; ++i) {
    const std::uint64_t moved = moved_pages();
    for (const int node : {0, 1}) {
      const Mapped memory;
      prefetch(memory.data(), host_node(node));
      CHECK(pages_on(node, memory.data()) == pages);
    }
    fewest_moved = std::min(fewest_moved, moved_pages() - moved);
  }
  CHECK(fewest_moved < pages);
  const Mapped memory;
  prefetch(memory.data(), device(0));
  CHECK(pages_on(device_node, memory.data()) == pages);
  // The node was chosen for this prefetch only.
  REQUIRE(::madvise(memory.data(), length, MADV_DONTNEED) == 0);
  std::memset(memory.data(), 't', length);
  CHECK(pages_on(device_node, memory.data()) == 0);
}

TEST_CASE("pages of stacks, locked memory, files and shared memory move, too", "[guest]") {
  SECTION("the stack") {
    session();
    alignas(page) char array[length];
    std::memset(array, 's', length);
    prefetch(array, device(0));
    CHECK(pages_on(device_node, array) == pages);
  }
  SECTION("locked memory") {
    const Mapped memory;
    REQUIRE(::mlock(memory.data(), length) == 0);
    prefetch(memory.data(), device(0));
    CHECK(pages_on(device_node, memory.data()) == pages);
  }
  SECTION("a file's pages and shared memory") {
    const int file = ::memfd_create("system_placement_test", MFD_CLOEXEC);
    REQUIRE(::ftruncate(file, length) == 0);
    for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
      const Mapped memory(flags, file);
      std::memset(memory.data(), 'f', length);
      prefetch(memory.data(), device(0));
      CHECK(pages_on(device_node, memory.data()) == pages);
    }
    ::close(file);
  }
}

TEST_CASE("pages that another process shares stay, without an error", "[guest]") {
  const Mapped memory;
  std::memset(memory.data(), 'p', length);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // The child lives until the parent closes its end of the pipe.
    ::close(ends[1]);
    char token = 0;
    const bool ended = ::read(ends[0], &token, 1) == 0;
    ::_exit(ended && memory.data()[length - 1] == 'p' ? 0 : 1);
  }
  REQUIRE(child > 0);
  ::close(ends[0]);
  // These pages are the parent's alone from now on.
  std::memset(memory.data(), 'q', 5 * page);
  prefetch(memory.data(), device(0));
  CHECK(pages_on(device_node, memory.data()) == 5);
  CHECK(pages_on(device_node, memory.data(), 5 * page) == 5);
  ::close(ends[1]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  prefetch(memory.data(), device(0));
  CHECK(pages_on(device_node, memory.data()) == pages);
}

TEST_CASE("the first touch creates pages at the preferred location", "[guest]") {
  struct {
    CUmemLocation location;
    int node;
  } const cases[] = {{device(0), device_node}, {host_node(1), 1}, {host_node(0), 0}};
  for (const auto& [location, node] : cases) {
    CAPTURE(node);
    const Mapped memory;
    advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location);
    CHECK(policy_of(memory.data()) == prefers_nodes);
    std::memset(memory.data(), 't', length / 2);
    CHECK(pages_on(node, memory.data(), length / 2) == pages / 2);
    // Setting another location moves no page. After unsetting it, the rest may be created anywhere.
    advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
           node == device_node ? host_node(0) : device(0));
    CHECK(pages_on(node, memory.data(), length / 2) == pages / 2);
    advise(memory.data(), CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
    CHECK(policy_of(memory.data()) == MPOL_DEFAULT);
    std::memset(memory.data() + length / 2, 't', length / 2);
    CHECK(pages_on(device_node, memory.data() + length / 2, length / 2) == 0);
  }
}

TEST_CASE("a preferred location does not prevent a prefetch of the program's memory", "[guest]") {
  const Mapped memory;
  advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_node(1));
  prefetch(memory.data(), device(0));
  CHECK(pages_on(device_node, memory.data()) == pages);
}

TEST_CASE("memory at the place of memory that was to be prefetched is not moved", "[guest]") {
  const Mapped memory;
  const CUstream stream = session().stream(0);
  std::atomic<bool> open = false;
  WHERRY_TRY(cuLaunchHostFunc(
      stream,
      [](void* gate) {
        comes_true([gate] { return static_cast<std::atomic<bool>*>(gate)->load(); });
      },
      &open));
  WHERRY_TRY(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(memory.data()), length, device(0), 0,
                                stream));
  REQUIRE(::mmap(memory.data(), length, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory.data());
  std::memset(memory.data(), 'o', length);
  open = true;
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(pages_on(device_node, memory.data()) == 0);
}

TEST_CASE("a memory policy of the program's own stays", "[guest]") {
  const unsigned long node_0 = 1;
  const auto set_own = [&](char* memory) {
    REQUIRE(::mbind(memory, length, MPOL_BIND, &node_0, 64, 0) == 0);
  };
  SECTION("set before the advice") {
    const Mapped memory;
    set_own(memory.data());
    advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0));
    CHECK(preferred_type(memory.data()) == CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK(policy_of(memory.data()) == MPOL_BIND);
    advise(memory.data(), CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
    CHECK(policy_of(memory.data()) == MPOL_BIND);
  }
  SECTION("set after the advice") {
    const Mapped memory;
    advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0));
    set_own(memory.data());
    advise(memory.data(), CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
    CHECK(policy_of(memory.data()) == MPOL_BIND);
  }
}

TEST_CASE("advice without a place keeps the policy of the program's threads", "[guest]") {
  const Mapped memory;
  const unsigned long nodes = 1 << 1;
  REQUIRE(::set_mempolicy(MPOL_PREFERRED, &nodes, 64) == 0);
  advise(memory.data(), CU_MEM_ADVISE_SET_READ_MOSTLY);
  std::memset(memory.data(), 't', length);
  REQUIRE(::set_mempolicy(MPOL_DEFAULT, nullptr, 0) == 0);
  CHECK(policy_of(memory.data()) == MPOL_DEFAULT);
  CHECK(pages_on(1, memory.data()) == pages);
}

TEST_CASE("other anonymous memory at the place of memory with a preferred location has no advice",
          "[guest]") {
  const Mapped memory;
  advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0));
  advise(memory.data(), CU_MEM_ADVISE_SET_READ_MOSTLY);
  REQUIRE(preferred_type(memory.data()) == CU_MEM_LOCATION_TYPE_DEVICE);
  REQUIRE(::munmap(memory.data(), length) == 0);
  const Mapped later(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, memory.data());
  CHECK(preferred_type(later.data()) == CU_MEM_LOCATION_TYPE_INVALID);
  int read_mostly = -1;
  WHERRY_TRY(cuMemRangeGetAttribute(&read_mostly, sizeof read_mostly,
                                    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                    reinterpret_cast<CUdeviceptr>(later.data()), length));
  CHECK(read_mostly == 0);
}

}  // namespace wherry::test::locations::system_placement_test
