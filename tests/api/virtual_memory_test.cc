// Results of the functions of virtual memory (cuMemCreate, cuMemMap) for right and wrong arguments.
#include <wherry/cuda.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "support/catch.h"
#include "support/session.h"
#include "support/virtual_memory.h"

namespace wherry::test::virtual_memory_test {

namespace {

constexpr CUdeviceptr poison = 0x123;
constexpr unsigned long long none = CU_MEM_ACCESS_FLAGS_PROT_NONE;
constexpr unsigned long long reading = CU_MEM_ACCESS_FLAGS_PROT_READ;
constexpr unsigned long long writing = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

Session& session() {
  static Session the_session("capacity=64M,workers=1;capacity=64M,workers=1");
  return the_session;
}
void make_current(int device) {
  WHERRY_TRY(cuCtxSetCurrent(session().context(device)));
}

int host_node() {
  int node = -1;
  WHERRY_TRY(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
  return node;
}
// Whether the API answers that nothing is mapped. system/virtual_memory_test checks Linux's view.
bool is_unmapped(CUdeviceptr address) {
  unsigned long long flags = poison;
  const CUmemLocation location = on_device(0);
  return cuMemGetAccess(&flags, &location, address) == CUDA_ERROR_INVALID_VALUE && flags == none;
}
CUmemLocation on_node() {
  return {CU_MEM_LOCATION_TYPE_HOST_NUMA, host_node()};
}

}  // namespace

TEST_CASE("devices report support for virtual memory", "[api]") {
  session();
  for (const auto which : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                           CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                           CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                           CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int value = 0;
    CHECK(cuDeviceGetAttribute(&value, which, 1) == CUDA_SUCCESS);
    CHECK(value == 1);
  }
  int fabric = 7;
  CHECK(cuDeviceGetAttribute(&fabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0) ==
        CUDA_SUCCESS);
  CHECK(fabric == 0);
}

TEST_CASE("the functions are found from the CUDA versions that introduced them", "[api]") {
  session();
  const auto found = [](const char* name, int version) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status{};
    WHERRY_TRY(cuGetProcAddress(name, &function, version, 0, &status));
    return function;
  };
  CHECK(found("cuMemCreate", 10020) == reinterpret_cast<void*>(cuMemCreate));
  CHECK(found("cuMemSetAccess", 13000) == reinterpret_cast<void*>(cuMemSetAccess));
  CHECK(found("cuMemRetainAllocationHandle", 11000) ==
        reinterpret_cast<void*>(cuMemRetainAllocationHandle));
}

TEST_CASE("invalid memory is refused", "[api]") {
  session();
  CUmemGenericAllocationHandle handle = poison;
  const auto refused = [&](auto change, CUresult expected) {
    CUmemAllocationProp wanted = properties_at(on_device(0));
    change(wanted);
    CHECK(cuMemCreate(&handle, vm_step, &wanted, 0) == expected);
    CHECK(handle == poison);
    // The granularity is the same for all of them.
    std::size_t granularity = 0;
    CHECK(cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
          CUDA_SUCCESS);
    CHECK(granularity == vm_step);
  };
  using Properties = CUmemAllocationProp;
  const auto invalid = CUDA_ERROR_INVALID_VALUE;
  const auto forbidden = CUDA_ERROR_NOT_PERMITTED;
  refused([](Properties& p) { p.type = CU_MEM_ALLOCATION_TYPE_INVALID; }, invalid);
  refused([](Properties& p) { p.type = CU_MEM_ALLOCATION_TYPE_MANAGED; }, invalid);
  refused([](Properties& p) { p.location = {CU_MEM_LOCATION_TYPE_INVALID, 0}; }, invalid);
  refused([](Properties& p) { p.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}; }, invalid);
  refused([](Properties& p) { p.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 999}; }, invalid);
  refused([](Properties& p) { p.location = on_device(2); }, CUDA_ERROR_INVALID_DEVICE);
  refused([](Properties& p) { p.location = on_device(-1); }, CUDA_ERROR_INVALID_DEVICE);
  refused([](Properties& p) { p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32; }, invalid);
  refused([](Properties& p) { p.requestedHandleTypes = CUmemAllocationHandleType(3); }, invalid);
  refused([](Properties& p) { p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC; }, forbidden);
  refused([](Properties& p) { p.requestedHandleTypes = CUmemAllocationHandleType(0x10); }, invalid);
  refused([](Properties& p) { p = properties_at(on_host, /*exportable=*/true); }, invalid);
  refused([](Properties& p) { p.allocFlags.compressionType = 2; }, invalid);
  refused([](Properties& p) { p.allocFlags.gpuDirectRDMACapable = 2; }, invalid);
  refused([](Properties& p) { p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL; }, invalid);
  refused([](Properties& p) { p.win32HandleMetaData = &p; }, invalid);
  refused([](Properties& p) { p.allocFlags.reserved[3] = 1; }, invalid);

  const CUmemAllocationProp good = properties_at(on_device(0));
  CHECK(cuMemCreate(nullptr, vm_step, &good, 0) == invalid);
  CHECK(cuMemCreate(&handle, vm_step, nullptr, 0) == invalid);
  CHECK(cuMemCreate(&handle, vm_step, &good, 1) == invalid);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4096}, vm_step + 4096})
    CHECK(cuMemCreate(&handle, bytes, &good, 0) == invalid);
  for (const std::size_t bytes : {33 * vm_step, std::size_t{1} << 62})
    CHECK(cuMemCreate(&handle, bytes, &good, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(handle == poison);

  std::size_t granularity = poison;
  CHECK(cuMemGetAllocationGranularity(nullptr, &good, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == invalid);
  CHECK(cuMemGetAllocationGranularity(&granularity, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        invalid);
  CHECK(cuMemGetAllocationGranularity(&granularity, &good, CUmemAllocationGranularity_flags(2)) ==
        invalid);
  CHECK(granularity == poison);
}

TEST_CASE("a limit on file sizes makes cuMemCreate fail, and ends no process", "[api]") {
  make_current(0);
  const CUmemAllocationProp good = properties_at(on_device(0));
  CUmemGenericAllocationHandle handle = poison;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{vm_step - 1, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const CUresult refusal = cuMemCreate(&handle, vm_step, &good, 0);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(refusal == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(handle == poison);
  REQUIRE(cuMemCreate(&handle, vm_step, &good, 0) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("memory returns the properties that it was created with", "[api]") {
  session();
  for (const CUmemLocation& location : {on_device(0), on_device(1), on_host, on_node()}) {
    CUmemAllocationProp wanted = properties_at(location);
    wanted.allocFlags.gpuDirectRDMACapable = 1;
    wanted.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
    for (const auto option :
         {CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED}) {
      std::size_t granularity = 0;
      CHECK(cuMemGetAllocationGranularity(&granularity, &wanted, option) == CUDA_SUCCESS);
      CHECK(granularity == vm_step);
    }
    CUmemGenericAllocationHandle handle = 0;
    REQUIRE(cuMemCreate(&handle, vm_step, &wanted, 0) == CUDA_SUCCESS);
    CUmemAllocationProp told{};
    CHECK(cuMemGetAllocationPropertiesFromHandle(&told, handle) == CUDA_SUCCESS);
    wanted.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
    CHECK(std::memcmp(&told, &wanted, sizeof told) == 0);
    CHECK(cuMemGetAllocationPropertiesFromHandle(nullptr, handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
    CHECK(cuMemGetAllocationPropertiesFromHandle(&told, handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("addresses are reserved at the hint, if they are free", "[api]") {
  session();
  const Addresses first(3 * vm_step);
  CHECK(first % vm_step == 0);
  // The hint is free, or in use; in both cases nothing overlaps.
  const Addresses next(vm_step, first + 3 * vm_step);
  const Addresses there(2 * vm_step, first + vm_step);
  CHECK((there >= first + 3 * vm_step || there + 2 * vm_step <= first));
  CUdeviceptr apart = 0;
  {
    const Addresses far(vm_step, next + 512 * vm_step);
    apart = far;
    CHECK(far == next + 512 * vm_step);
  }
  // The addresses are free again. A hint that is no multiple of the granularity is ignored.
  CHECK(Addresses(vm_step, apart) == apart);
  CHECK(Addresses(vm_step, apart + 4096) % vm_step == 0);
  for (const std::size_t alignment :
       {std::size_t{1}, std::size_t{4096}, 16 * vm_step, 512 * vm_step}) {
    CUdeviceptr aligned = 0;
    REQUIRE(cuMemAddressReserve(&aligned, vm_step, alignment, 0, 0) == CUDA_SUCCESS);
    CHECK(aligned % alignment == 0);
    CHECK(aligned % vm_step == 0);
    CHECK(cuMemAddressFree(aligned, vm_step) == CUDA_SUCCESS);
  }
}

TEST_CASE("invalid address ranges are refused", "[api]") {
  session();
  CUdeviceptr address = poison;
  const auto refused = [&](std::size_t bytes, std::size_t alignment, CUdeviceptr hint,
                           unsigned long long flags) {
    return cuMemAddressReserve(&address, bytes, alignment, hint, flags);
  };
  CHECK(cuMemAddressReserve(nullptr, vm_step, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(4096, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(vm_step + 4096, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(vm_step, 3, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(vm_step, 0, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(vm_step, 0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(std::size_t{1} << 60, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(refused(~(vm_step - 1), 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(refused(vm_step, std::size_t{1} << 63, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(address == poison);

  const Addresses reserved(4 * vm_step);
  CHECK(cuMemAddressFree(reserved, 2 * vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(reserved + vm_step, 3 * vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(reserved, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(0, vm_step) == CUDA_ERROR_INVALID_VALUE);
  const Physical memory(vm_step);
  {
    const Mapped mapped(reserved + 2 * vm_step, vm_step, memory);
    CHECK(cuMemAddressFree(reserved, 4 * vm_step) == CUDA_ERROR_INVALID_VALUE);
  }
  CUdeviceptr other = 0;
  REQUIRE(cuMemAddressReserve(&other, vm_step, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(other, vm_step) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(other, vm_step) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory is mapped at free addresses inside one reservation", "[api]") {
  session();
  const Addresses place(4 * vm_step);
  const Physical memory(2 * vm_step);
  const Physical other(vm_step);
  const auto map = [&](CUdeviceptr at, std::size_t bytes, std::size_t offset) {
    return cuMemMap(at, bytes, offset, memory, 0);
  };
  CHECK(map(place, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(place + 4096, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(place - 2 * vm_step, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(place + 3 * vm_step, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(~CUdeviceptr{0} - vm_step + 1, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(0, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(place, 2 * vm_step, 0, memory, 1) == CUDA_ERROR_INVALID_VALUE);
  // Only all of the memory can be mapped, not a part.
  CHECK(map(place, 4096, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(map(place, vm_step, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(map(place, vm_step, vm_step) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(map(place, 2 * vm_step, 4096) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(map(place, 3 * vm_step, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap(place, vm_step, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(place, vm_step, 0, 987654, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(is_unmapped(place));

  const Mapped mapped(place + vm_step, 2 * vm_step, memory);
  CHECK(map(place, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(place + vm_step, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(place + 2 * vm_step, 2 * vm_step, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(place + 2 * vm_step, vm_step, 0, other, 0) == CUDA_ERROR_INVALID_VALUE);
  // Maps memory next to it, and the same memory twice.
  const Mapped before(place, vm_step, other);
  const Mapped after(place + 3 * vm_step, vm_step, other);
}

TEST_CASE("unmapping takes any number of whole mappings, and no part of one", "[api]") {
  session();
  const Addresses place(5 * vm_step);
  const Physical one(2 * vm_step);
  const Physical other(vm_step);
  REQUIRE(cuMemMap(place, 2 * vm_step, 0, one, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(place + 2 * vm_step, vm_step, 0, other, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(place + 4 * vm_step, vm_step, 0, other, 0) == CUDA_SUCCESS);
  REQUIRE(give_access(place, 3 * vm_step, on_device(0)) == CUDA_SUCCESS);
  const auto at = [&](unsigned step) { return place + step * vm_step; };
  // Access is set for whole mappings without a gap.
  for (const auto& [start, steps] :
       {std::pair{0u, 1u}, {1, 1}, {1, 2}, {0, 4}, {2, 2}, {3, 1}, {3, 2}, {0, 5}, {4, 2}}) {
    INFO(start << "+" << steps);
    CHECK(give_access(at(start), steps * vm_step, on_device(1)) == CUDA_ERROR_INVALID_VALUE);
  }
  for (const auto& [start, steps] : {std::pair{0u, 1u}, {1, 1}, {1, 2}, {1, 7}}) {
    INFO(start << "+" << steps);
    CHECK(cuMemUnmap(at(start), steps * vm_step) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemUnmap(place, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(place, 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(place + 4096, vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(access_of(place + 3 * vm_step - 1, on_device(0)) == writing);
  CHECK(access_of(place, on_device(1)) == none);
  // Unmaps ranges without mappings, with a gap, and past the reservation.
  CHECK(cuMemUnmap(at(3), vm_step) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(at(2), 2 * vm_step) == CUDA_SUCCESS);
  CHECK(access_of(at(1), on_device(0)) == writing);
  CHECK(access_of(at(4), on_device(0)) == none);
  CHECK(is_unmapped(at(2)));
  CHECK(cuMemUnmap(place, 7 * vm_step) == CUDA_SUCCESS);
  CHECK(is_unmapped(at(0)));
  CHECK(is_unmapped(at(4)));
  CHECK(cuMemUnmap(place, 3 * vm_step) == CUDA_SUCCESS);
}

TEST_CASE("access is the last setting, separately for each processor", "[api]") {
  session();
  const Addresses place(2 * vm_step);
  const Physical of_host(vm_step, on_host);
  const Physical of_node(vm_step, on_node());
  const Mapped mapped(place, vm_step, of_host);
  const Mapped beside(place + vm_step, vm_step, of_node);
  CHECK(access_of(place, on_device(0)) == none);
  CHECK(access_of(place, on_host) == none);
  const CUmemAccessDesc all[] = {{on_device(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                 {on_device(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                 {on_host, CU_MEM_ACCESS_FLAGS_PROT_READ},
                                 {on_device(1), CU_MEM_ACCESS_FLAGS_PROT_READ}};
  REQUIRE(cuMemSetAccess(place, 2 * vm_step, all, 4) == CUDA_SUCCESS);
  for (const CUdeviceptr at : {CUdeviceptr(place), place + 2 * vm_step - 1}) {
    CHECK(access_of(at, on_device(0)) == writing);
    CHECK(access_of(at, on_device(1)) == reading);
    CHECK(access_of(at, on_host) == reading);
  }
  REQUIRE(give_access(place, vm_step, on_device(0), CU_MEM_ACCESS_FLAGS_PROT_NONE) == CUDA_SUCCESS);
  CHECK(access_of(place, on_device(0)) == none);
  CHECK(access_of(place + vm_step, on_device(0)) == writing);
  // Only memory that was created on a NUMA node accepts a node's location, whatever its number.
  const CUmemLocation as_node{CU_MEM_LOCATION_TYPE_HOST_NUMA, 4711};
  CHECK(give_access(place, vm_step, as_node) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(give_access(place, 2 * vm_step, as_node) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(access_of(place + vm_step, on_host) == reading);
  CHECK(give_access(place + vm_step, vm_step, as_node) == CUDA_SUCCESS);
  CHECK(access_of(place + vm_step, on_host) == writing);
  CHECK(access_of(place + vm_step, as_node) == writing);
}

TEST_CASE("invalid access is refused, and nothing changes", "[api]") {
  session();
  const Addresses place(2 * vm_step);
  const Physical memory(vm_step);
  const Mapped mapped(place, vm_step, memory);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  const auto refused = [&](CUmemLocation location, int flags, CUresult expected) {
    const CUmemAccessDesc both[] = {{on_device(0), CU_MEM_ACCESS_FLAGS_PROT_NONE},
                                    {location, static_cast<CUmemAccess_flags>(flags)}};
    CHECK(cuMemSetAccess(place, vm_step, both, 2) == expected);
    CHECK(access_of(place, on_device(0)) == writing);
  };
  refused(on_device(2), 3, CUDA_ERROR_INVALID_VALUE);
  refused(on_host, 3, CUDA_ERROR_NOT_SUPPORTED);
  refused({CU_MEM_LOCATION_TYPE_HOST_NUMA, host_node()}, 1, CUDA_ERROR_NOT_SUPPORTED);
  refused(on_device(1), 2, CUDA_ERROR_INVALID_VALUE);
  refused(on_device(1), 4, CUDA_ERROR_INVALID_VALUE);
  refused({CU_MEM_LOCATION_TYPE_INVALID, 0}, 3, CUDA_ERROR_INVALID_VALUE);
  refused({CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0}, 3, CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc good{on_device(0), CU_MEM_ACCESS_FLAGS_PROT_NONE};
  CHECK(cuMemSetAccess(place, vm_step, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(place, vm_step, &good, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(place, 0, &good, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(place, 2 * vm_step, &good, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(place + vm_step, vm_step, &good, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(place, 4096, &good, 1) == CUDA_ERROR_INVALID_VALUE);
  unsigned long long flags = poison;
  const CUmemLocation here = on_device(0);
  const CUmemLocation nowhere = on_device(9);
  CHECK(cuMemGetAccess(nullptr, &here, place) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemGetAccess(&flags, nullptr, place) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemGetAccess(&flags, &nowhere, place) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(flags == poison);
  CHECK(cuMemGetAccess(&flags, &here, place + vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(flags == none);
  CHECK(access_of(place, on_device(0)) == writing);
}

TEST_CASE("a handle is valid as long as it has references", "[api]") {
  session();
  const Addresses place(vm_step);
  Physical memory(vm_step);
  const CUmemGenericAllocationHandle handle = memory;
  CHECK(handle != 0);
  CUmemGenericAllocationHandle found = poison;
  const auto at = [&](std::size_t byte) { return reinterpret_cast<void*>(place + byte); };
  CHECK(cuMemRetainAllocationHandle(&found, at(0)) == CUDA_ERROR_INVALID_VALUE);
  Mapped mapped(place, vm_step, memory);
  CHECK(cuMemRetainAllocationHandle(nullptr, at(0)) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemRetainAllocationHandle(&found, at(vm_step - 1)) == CUDA_SUCCESS);
  CHECK(found == handle);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  memory.release();
  CUmemAllocationProp told{};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&told, handle) == CUDA_ERROR_INVALID_VALUE);
  // The mapping still refers to the handle.
  found = 0;
  REQUIRE(cuMemRetainAllocationHandle(&found, at(0)) == CUDA_SUCCESS);
  CHECK(found == handle);
  mapped.unmap();
  CHECK(cuMemGetAllocationPropertiesFromHandle(&told, handle) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRelease(0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("only memory created for export is exported, and only such files are imported", "[api]") {
  session();
  constexpr auto as_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const Physical inner(vm_step);
  const Physical memory(vm_step, on_device(1), /*exportable=*/true);
  int fd = -7;
  CHECK(cuMemExportToShareableHandle(&fd, inner, as_file, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemExportToShareableHandle(nullptr, memory, as_file, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemExportToShareableHandle(&fd, memory, as_file, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemExportToShareableHandle(&fd, 0, as_file, 0) == CUDA_ERROR_INVALID_VALUE);
  for (const int type : {0, 2, 3, 4, 8, 16})
    CHECK(cuMemExportToShareableHandle(&fd, memory, static_cast<CUmemAllocationHandleType>(type),
                                       0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fd == -7);

  fd = memory.descriptor();
  CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  const auto import = [](CUmemGenericAllocationHandle* handle, int file,
                         CUmemAllocationHandleType type) {
    return cuMemImportFromShareableHandle(
        handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(file)), type);
  };
  CUmemGenericAllocationHandle handle = poison;
  CHECK(import(nullptr, fd, as_file) == CUDA_ERROR_INVALID_VALUE);
  CHECK(import(&handle, fd, CU_MEM_HANDLE_TYPE_NONE) == CUDA_ERROR_INVALID_VALUE);
  CHECK(import(&handle, fd, CU_MEM_HANDLE_TYPE_FABRIC) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(import(&handle, -1, as_file) == CUDA_ERROR_INVALID_VALUE);
  CHECK(import(&handle, STDIN_FILENO, as_file) == CUDA_ERROR_INVALID_VALUE);
  // Files with a wrong name, and one with the right name and a wrong size.
  for (const char* name : {"other", "wherry-memory-dev0x", "wherry-memory-", "wherry-memory-host",
                           "wherry-memory-dev0"}) {
    const int false_file = ::memfd_create(name, MFD_CLOEXEC);
    const bool is_its_name = std::strcmp(name, "wherry-memory-dev0") == 0;
    REQUIRE(::ftruncate(false_file, is_its_name ? 4096 : vm_step) == 0);
    INFO(name);
    CHECK(import(&handle, false_file, as_file) == CUDA_ERROR_INVALID_VALUE);
    ::close(false_file);
  }
  CHECK(handle == poison);

  REQUIRE(import(&handle, fd, as_file) == CUDA_SUCCESS);
  ::close(fd);
  CHECK(handle != memory);
  CUmemAllocationProp told{};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&told, handle) == CUDA_SUCCESS);
  const CUmemAllocationProp expected = properties_at(on_device(1));
  CHECK(std::memcmp(&told, &expected, sizeof told) == 0);
  // Only the process that created the memory can export it.
  fd = -7;
  CHECK(cuMemExportToShareableHandle(&fd, handle, as_file, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fd == -7);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("pointer attributes of mapped memory", "[api]") {
  make_current(0);
  const Addresses place(4 * vm_step);
  const Physical memory(2 * vm_step, on_device(1), /*exportable=*/true);
  const Physical of_host(vm_step, on_host);
  const CUdeviceptr start = place + vm_step;
  const CUdeviceptr at = start + 5;
  const Mapped mapped(start, 2 * vm_step, memory);
  const Mapped beside(place + 3 * vm_step, vm_step, of_host);
  REQUIRE(give_access(start, 2 * vm_step, on_device(0), CU_MEM_ACCESS_FLAGS_PROT_READ) ==
          CUDA_SUCCESS);

  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, at) == nullptr);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == 0);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == 1);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at) == 0);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) == 0);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) == place);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) == 4 * vm_step);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MAPPED, at) == 1);
  CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at) ==
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at) == 0);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at) ==
        CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
  CHECK(attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) == nullptr);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) == start);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at) == 2 * vm_step);
  CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, at) == memory);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, at) == 0);
  CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, at) !=
        attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, start + 2 * vm_step));
  CUdeviceptr host_pointer = poison;
  CHECK(cuPointerGetAttribute(&host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, at) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(host_pointer == 0);
  unsigned set = 1;
  CHECK(cuPointerSetAttribute(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at) == 0);

  const CUdeviceptr in_host = place + 3 * vm_step + 9;
  REQUIRE(give_access(place + 3 * vm_step, vm_step, on_host) == CUDA_SUCCESS);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_HOST_POINTER, in_host) == in_host);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, in_host) == CU_MEMORYTYPE_HOST);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, in_host) == CU_DEVICE_CPU);
  CHECK(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, in_host) == 0);

  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange(&base, &bytes, at) == CUDA_SUCCESS);
  CHECK(base == start);
  CHECK(bytes == 2 * vm_step);
}

TEST_CASE("a device without access gets no device pointer", "[api]") {
  const Addresses place(vm_step);
  const Physical memory(vm_step);
  const Mapped mapped(place, vm_step, memory);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  const CUdeviceptr at = place + 5;
  make_current(1);
  CUdeviceptr address = poison;
  CHECK(cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(address == 0);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at) ==
        CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) == place);
  std::size_t bytes = poison;
  address = poison;
  CHECK(cuMemGetAddressRange(&address, &bytes, at) == CUDA_ERROR_NOT_FOUND);
  CHECK(address == 0);
  CHECK(bytes == 0);
  make_current(0);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at);
  CHECK(cuMemGetAddressRange(&address, &bytes, at) == CUDA_SUCCESS);
  CHECK(address == place);
}

TEST_CASE("addresses that are only reserved are unknown", "[api]") {
  make_current(0);
  const Addresses place(2 * vm_step);
  const CUdeviceptr at = place + vm_step;
  for (const auto which : {CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                           CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE}) {
    unsigned long long value = poison;
    CHECK(cuPointerGetAttribute(&value, which, at) == CUDA_ERROR_INVALID_VALUE);
    CHECK(value == poison);
  }
  std::size_t size = poison;
  int ordinal = 0;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* data[] = {&size, &ordinal};
  CHECK(cuPointerGetAttributes(2, which, data, at) == CUDA_SUCCESS);
  CHECK(size == poison);
  CHECK(ordinal == CU_DEVICE_INVALID);
  CUdeviceptr base = 0;
  CHECK(cuMemGetAddressRange(&base, nullptr, at) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("functions for managed memory or cuMemAlloc's refuse mapped memory", "[api]") {
  make_current(0);
  const Addresses place(vm_step);
  const Physical memory(vm_step);
  const Mapped mapped(place, vm_step, memory);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  CHECK(cuMemFree(place) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(place, session().stream(0)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(reinterpret_cast<void*>(CUdeviceptr(place))) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAdvise(place, vm_step, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(0)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPrefetchAsync(place, vm_step, on_device(0), 0, session().stream(0)) ==
        CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  CHECK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, place,
                               vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostRegister(reinterpret_cast<void*>(CUdeviceptr(place)), 4096, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(access_of(place, on_device(0)) == writing);
}

TEST_CASE("copies and fills access everything that the device may access, across pieces", "[api]") {
  make_current(0);
  const Addresses place(3 * vm_step);
  const Physical one(vm_step);
  const Physical other(vm_step, on_device(1));
  const Mapped first(place, vm_step, one);
  const Mapped second(place + vm_step, vm_step, other);
  std::vector<unsigned char> data(vm_step + 1000);
  std::iota(data.begin(), data.end(), 3);
  const CUdeviceptr at = place + vm_step / 2;
  // The destination is inaccessible, then only its first half is accessible, then the second half
  // is read-only.
  CHECK(cuMemcpyHtoD(at, data.data(), data.size()) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoD(at, data.data(), data.size()) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(give_access(place + vm_step, vm_step, on_device(0), CU_MEM_ACCESS_FLAGS_PROT_READ) ==
          CUDA_SUCCESS);
  CHECK(cuMemcpyHtoD(at, data.data(), data.size()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8(at, 1, data.size()) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(give_access(place, 2 * vm_step, on_device(0)) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoD(place, data.data(), 2 * vm_step + 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemcpyHtoD(at, data.data(), data.size()) == CUDA_SUCCESS);

  std::vector<unsigned char> back(data.size());
  REQUIRE(cuMemcpyDtoH(back.data(), at, back.size()) == CUDA_SUCCESS);
  CHECK(back == data);
  // Copies the bytes to managed memory, to device memory and back.
  const Managed<unsigned char> managed(data.size());
  CUdeviceptr own = 0;
  WHERRY_TRY(cuMemAlloc(&own, data.size()));
  CHECK(cuMemcpy(reinterpret_cast<CUdeviceptr>(managed.data()), at, data.size()) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoD(own, reinterpret_cast<CUdeviceptr>(managed.data()), data.size()) ==
        CUDA_SUCCESS);
  CHECK(cuMemsetD32(place, 0x01020304, 2 * vm_step / 4) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoD(at + 7, own, data.size()) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(back.data(), at + 7, back.size()) == CUDA_SUCCESS);
  CHECK(back == data);
  unsigned around[2] = {};
  CHECK(cuMemcpyDtoH(&around[0], place, 4) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(&around[1], place + 2 * vm_step - 4, 4) == CUDA_SUCCESS);
  CHECK(around[0] == 0x01020304);
  CHECK(around[1] == 0x01020304);
  WHERRY_TRY(cuMemFree(own));

  // The device of the current context must have access, or the device named in a copy between
  // devices.
  make_current(1);
  CHECK(cuMemcpyDtoH(back.data(), at, 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyPeer(at, session().context(1), at + 100, session().context(0), 10) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyPeer(at, session().context(0), at + 100, session().context(0), 10) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  make_current(0);
}

TEST_CASE("copies treat mapped memory as host memory where the host may access it", "[api]") {
  make_current(0);
  const Addresses place(2 * vm_step);
  const Physical of_host(vm_step, on_host);
  const Physical of_device(vm_step);
  const Mapped first(place, vm_step, of_host);
  const Mapped second(place + vm_step, vm_step, of_device);
  auto* const bytes = reinterpret_cast<char*>(CUdeviceptr(place));
  REQUIRE(give_access(place + vm_step, vm_step, on_device(0)) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(bytes, place + vm_step, 100) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(give_access(place, vm_step, on_host) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8(place + vm_step, 0x37, vm_step) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoH(bytes, place + vm_step, vm_step) == CUDA_SUCCESS);
  CHECK(bytes[0] == 0x37);
  CHECK(bytes[vm_step - 1] == 0x37);
  bytes[1] = 5;
  REQUIRE(cuMemcpyHtoD(place + vm_step, bytes, 2) == CUDA_SUCCESS);
  char back[2] = {};
  REQUIRE(cuMemcpyDtoH(back, place + vm_step, 2) == CUDA_SUCCESS);
  CHECK(back[1] == 5);
}

}  // namespace wherry::test::virtual_memory_test
