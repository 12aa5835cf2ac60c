// The virtual machine has the properties that the placement tests rely on: three NUMA nodes, the
// third without CPUs, and a kernel whose userfaultfd has the features that the library uses.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <numa.h>
#include <numaif.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>

#include "support/catch.h"

namespace wherry::test::machine_test {

namespace {

bool has_cpus(int node) {
  bitmask* cpus = ::numa_allocate_cpumask();
  const bool any = ::numa_node_to_cpus(node, cpus) == 0 && ::numa_bitmask_weight(cpus) > 0;
  ::numa_free_cpumask(cpus);
  return any;
}

}  // namespace

TEST_CASE("the virtual machine has three nodes with memory, and CPUs on the first two", "[guest]") {
  REQUIRE(::numa_available() == 0);
  REQUIRE(::numa_max_node() == 2);
  for (int node = 0; node <= 2; ++node) CHECK(::numa_node_size64(node, nullptr) > 0);
  CHECK(has_cpus(0));
  CHECK(has_cpus(1));
  CHECK_FALSE(has_cpus(2));
  CHECK(::numa_distance(0, 1) < ::numa_distance(0, 2));
}

TEST_CASE("a page of a memory file is on the node that its mapping was bound to", "[guest]") {
  constexpr std::size_t size = 4096;
  for (int node = 0; node <= 2; ++node) {
    const int file = ::memfd_create("placed", MFD_CLOEXEC);
    REQUIRE(::ftruncate(file, size) == 0);
    void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(page != MAP_FAILED);
    const unsigned long nodes = 1ul << node;
    REQUIRE(::mbind(page, size, MPOL_BIND, &nodes, 8 * sizeof nodes, 0) == 0);
    *static_cast<volatile char*>(page) = 1;

    int status = -1;
    REQUIRE(::move_pages(0, 1, &page, nullptr, &status, 0) == 0);
    CHECK(status == node);
    ::munmap(page, size);
    ::close(file);
  }
}

TEST_CASE("Linux tracks missing, minor and write-protect faults on shared memory", "[guest]") {
  utsname names{};
  REQUIRE(::uname(&names) == 0);
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
  REQUIRE(fd >= 0);
  uffdio_api api{};
  api.api = UFFD_API;
  REQUIRE(::ioctl(fd, UFFDIO_API, &api) == 0);
  ::close(fd);

  std::printf("Linux %s, userfaultfd features 0x%llx\n", names.release,
              static_cast<unsigned long long>(api.features));
  CHECK((api.features & UFFD_FEATURE_MISSING_SHMEM) != 0);
  CHECK((api.features & UFFD_FEATURE_MINOR_SHMEM) != 0);
  CHECK((api.features & UFFD_FEATURE_WP_HUGETLBFS_SHMEM) != 0);
}

}  // namespace wherry::test::machine_test
