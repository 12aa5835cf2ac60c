// Memory pools that two programs share: one allocates, the other imports the allocations.
#include <unistd.h>

#include <cstring>

#include "support/catch.h"
#include "support/stage.h"
#include "support/virtual_memory.h"
#include "system/ipc_peer.h"

using namespace wherry::test;

namespace {

CUresult import_pool(int fd, CUmemoryPool& pool) {
  return cuMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}
CUmemPoolPtrExportData pointer_of(Peer& peer, std::uint64_t address) {
  const Answer answer = peer.ask({Ask::export_pointer, 0, address});
  check(answer.result, "cuMemPoolExportPointer");
  CUmemPoolPtrExportData data{};
  std::memcpy(&data, &answer.handle, sizeof data);
  return data;
}

// A memory pool of the other program, imported here.
struct Shared {
  explicit Shared(Peer& peer) : its(peer.get({Ask::make_pool, device0})) {
    WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device0)));
    const Answer exported = peer.ask({Ask::export_pool, device0, its});
    check(exported.result, "cuMemPoolExportToShareableHandle");
    WHERRY_TRY(import_pool(exported.fd, pool));
    ::close(exported.fd);
  }
  ~Shared() { cuMemPoolDestroy(pool); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const std::uint64_t its;
  CUmemoryPool pool = nullptr;
};

}  // namespace

TEST_CASE("memory of another program's pool is the same pages here", "[system]") {
  Peer peer;
  Shared shared(peer);
  const std::uint64_t first = peer.get({Ask::allocate_pooled, device0, shared.its, 100'000});
  const std::uint64_t second = peer.get({Ask::allocate_pooled, device0, shared.its, 5000});
  peer.get({Ask::write, device0, first + 8, 1});
  peer.get({Ask::write, device0, second + 8, 2});
  CUmemPoolPtrExportData one = pointer_of(peer, first);
  CUmemPoolPtrExportData other = pointer_of(peer, second);
  CUdeviceptr here = 0, there = 0;
  REQUIRE(cuMemPoolImportPointer(&here, shared.pool, &one) == CUDA_SUCCESS);
  REQUIRE(cuMemPoolImportPointer(&there, shared.pool, &other) == CUDA_SUCCESS);
  CHECK(stage().read(device0, words_at(here) + 1) == 1);
  CHECK(stage().read(device0, words_at(there) + 1) == 2);
  stage().write(device0, words_at(there) + 1, 3);
  CHECK(peer.get({Ask::read, device0, second + 8}) == 3);
  std::uint64_t word = 0;
  REQUIRE(cuMemcpyDtoH(&word, there + 8, sizeof word) == CUDA_SUCCESS);
  CHECK(word == 3);
  CUmemoryPool told = nullptr;
  CHECK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, here) == CUDA_SUCCESS);
  CHECK(told == shared.pool);
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange(nullptr, &bytes, there) == CUDA_SUCCESS);
  CHECK(bytes == 5000);

  CHECK(cuIpcCloseMemHandle(here) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(here + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(here) == CUDA_SUCCESS);
  CHECK(cuMemFree(here) == CUDA_ERROR_INVALID_VALUE);
  const CUstream stream = stage().session().stream(device0);
  CHECK(cuMemFreeAsync(there, stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(there, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(!permissions_of(device_process(device0), words_at(here)).read);
  CHECK(!permissions_of(device_process(device0), words_at(there)).read);
  CHECK(peer.get({Ask::read, device0, second + 8}) == 3);
}

TEST_CASE("nothing can be allocated from another program's pool", "[system]") {
  Peer peer;
  Shared shared(peer);
  CUdeviceptr address = 1;
  CHECK(cuMemAllocFromPoolAsync(&address, 100, shared.pool, stage().session().stream(device0)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceSetMemPool(device0, shared.pool) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolTrimTo(shared.pool, 0) == CUDA_ERROR_INVALID_VALUE);
  int fd = -1;
  CHECK(cuMemPoolExportToShareableHandle(&fd, shared.pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0) == CUDA_ERROR_INVALID_VALUE);
  CUmemPoolPtrExportData data{};
  CHECK(cuMemPoolImportPointer(&address, shared.pool, &data) == CUDA_ERROR_INVALID_VALUE);
  CHECK(address == 0);

  // A pointer into another pool of that program.
  Shared other(peer);
  data = pointer_of(peer, peer.get({Ask::allocate_pooled, device0, other.its, 100}));
  CHECK(cuMemPoolImportPointer(&address, shared.pool, &data) == CUDA_ERROR_INVALID_VALUE);
  // A pointer to memory that the other program has freed.
  const std::uint64_t gone = peer.get({Ask::allocate_pooled, device0, shared.its, 100});
  data = pointer_of(peer, gone);
  peer.get({Ask::free_async, device0, gone});
  CHECK(cuMemPoolImportPointer(&address, shared.pool, &data) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("access to an imported pool is set in the importing program", "[system]") {
  Peer peer;
  Shared shared(peer);
  const std::uint64_t its = peer.get({Ask::allocate_pooled, device0, shared.its, 5000});
  CUmemPoolPtrExportData data = pointer_of(peer, its);
  CUdeviceptr before = 0, after = 0;
  WHERRY_TRY(cuMemPoolImportPointer(&before, shared.pool, &data));
  CUmemLocation far = location_of(device1);
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemPoolGetAccess(&access, shared.pool, &far) == CUDA_SUCCESS);
  CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc wanted{far, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE(cuMemPoolSetAccess(shared.pool, &wanted, 1) == CUDA_SUCCESS);
  CHECK(cuMemPoolGetAccess(&access, shared.pool, &far) == CUDA_SUCCESS);
  CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  WHERRY_TRY(cuMemPoolImportPointer(&after, shared.pool, &data));
  CHECK(before != after);
  stage().write(device1, words_at(before), 5);
  CHECK(stage().read(device1, words_at(after)) == 5);
  CHECK(peer.get({Ask::read, device0, its}) == 5);
  wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  REQUIRE(cuMemPoolSetAccess(shared.pool, &wanted, 1) == CUDA_SUCCESS);
  for (const CUdeviceptr address : {before, after}) {
    CHECK(!permissions_of(device_process(device1), words_at(address)).read);
    CHECK(stage().read(device0, words_at(address)) == 5);
    CHECK(cuMemFree(address) == CUDA_SUCCESS);
  }
}

TEST_CASE("an imported pool belongs to its own device, whichever devices a program sees",
          "[system]") {
  Peer peer("1");
  Shared shared(peer);
  for (int device : {device0, device1}) {
    CUmemLocation location = location_of(device);
    CUmemAccess_flags access{};
    REQUIRE(cuMemPoolGetAccess(&access, shared.pool, &location) == CUDA_SUCCESS);
    CHECK(access ==
          (device == device1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE));
  }
  const std::uint64_t its = peer.get({Ask::allocate_pooled, device0, shared.its, 5000});
  peer.get({Ask::write, device0, its, 61});
  CUmemPoolPtrExportData data = pointer_of(peer, its);
  CUdeviceptr here = 0;
  REQUIRE(cuMemPoolImportPointer(&here, shared.pool, &data) == CUDA_SUCCESS);
  CHECK(stage().read(device1, words_at(here)) == 61);
  CHECK(cuMemFree(here) == CUDA_SUCCESS);
}

TEST_CASE("a pool keeps the pages that another program still has open", "[system]") {
  Peer peer;
  const std::uint64_t all = peer.get({Ask::free_bytes});
  Shared shared(peer);
  const std::uint64_t its = peer.get({Ask::allocate_pooled, device0, shared.its, 5000});
  CUmemPoolPtrExportData data = pointer_of(peer, its);
  CUdeviceptr here = 0;
  WHERRY_TRY(cuMemPoolImportPointer(&here, shared.pool, &data));
  peer.get({Ask::write, device0, its, 6});
  peer.get({Ask::free_async, device0, its});
  CHECK(peer.get({Ask::free_bytes}) < all);
  CHECK(stage().read(device0, words_at(here)) == 6);
  WHERRY_TRY(cuMemFree(here));
  // The owner notices that they are closed when a call needs its pool.
  CHECK(peer.get({Ask::free_bytes}) == all);
}

TEST_CASE("a pool of a program that has ended cannot be used", "[system]") {
  CUdeviceptr here = 0;
  int fd = -1;
  CUmemPoolPtrExportData late{};
  Peer peer;
  Shared shared(peer);
  fd = peer.ask({Ask::export_pool, device0, shared.its}).fd;
  const std::uint64_t its = peer.get({Ask::allocate_pooled, device0, shared.its, 5000});
  CUmemPoolPtrExportData data = pointer_of(peer, its);
  late = pointer_of(peer, peer.get({Ask::allocate_pooled, device0, shared.its, 5000}));
  WHERRY_TRY(cuMemPoolImportPointer(&here, shared.pool, &data));
  peer.get({Ask::write, device0, its, 7});
  peer.kill();
  CHECK(stage().read(device0, words_at(here)) == 7);
  CUdeviceptr address = 0;
  CHECK(cuMemPoolImportPointer(&address, shared.pool, &late) == CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool pool = nullptr;
  CHECK(import_pool(fd, pool) == CUDA_ERROR_INVALID_VALUE);
  ::close(fd);
  CHECK(cuMemFree(here) == CUDA_SUCCESS);
}
