// Results of the functions for device memory: pitched rows, access between devices, pools, old and
// new names.
#include <wherry/cuda_runtime_api.h>

#include <cstdint>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::device_memory_test {

namespace {

constexpr CUdeviceptr no_address = 0x123;

Session& session() {
  static Session the_session("capacity=64M,workers=1;capacity=64M,workers=1");
  return the_session;
}
void make_current(int device) {
  WHERRY_TRY(cuCtxSetCurrent(session().context(device)));
}

CUmemPoolProps properties(int device) {
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return wanted;
}
class OwnPool {
 public:
  explicit OwnPool(int device) {
    session();
    const CUmemPoolProps wanted = properties(device);
    WHERRY_TRY(cuMemPoolCreate(&handle_, &wanted));
  }
  ~OwnPool() { cuMemPoolDestroy(handle_); }
  OwnPool(const OwnPool&) = delete;
  OwnPool& operator=(const OwnPool&) = delete;
  operator CUmemoryPool() const { return handle_; }

 private:
  CUmemoryPool handle_ = nullptr;
};

}  // namespace

TEST_CASE("rows begin at multiples of 512 bytes", "[api]") {
  make_current(0);
  for (const auto& [width, expected] : {std::pair<std::size_t, std::size_t>{1, 512},
                                        {512, 512},
                                        {513, 1024},
                                        {4095, 4096},
                                        {5000, 5120}}) {
    CUdeviceptr address = 0;
    std::size_t pitch = 0;
    REQUIRE(cuMemAllocPitch(&address, &pitch, width, 3, 8) == CUDA_SUCCESS);
    CHECK(pitch == expected);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    CHECK(cuMemGetAddressRange(&base, &bytes, address + 2 * pitch) == CUDA_SUCCESS);
    CHECK(base == address);
    CHECK(bytes == 3 * pitch);
    CHECK(cuMemFree(address) == CUDA_SUCCESS);
  }
}

TEST_CASE("invalid sizes of rows are refused", "[api]") {
  make_current(0);
  CUdeviceptr address = no_address;
  std::size_t pitch = 7;
  for (const unsigned element : {0u, 1u, 2u, 3u, 5u, 12u, 32u})
    CHECK(cuMemAllocPitch(&address, &pitch, 16, 16, element) == CUDA_ERROR_INVALID_VALUE);
  CHECK(address == 0);
  CHECK(cuMemAllocPitch(nullptr, &pitch, 16, 16, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch(&address, nullptr, 16, 16, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch(&address, &pitch, 0, 16, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch(&address, &pitch, 16, 0, 4) == CUDA_ERROR_INVALID_VALUE);
  for (const std::size_t width : {~std::size_t{0}, ~std::size_t{0} / 2, std::size_t{1} << 31})
    CHECK(cuMemAllocPitch(&address, &pitch, width, 4, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocPitch(&address, &pitch, 128 * mebibyte, 4, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocPitch(&address, &pitch, 4096, ~std::size_t{0}, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pitch == 7);
}

TEST_CASE("the runtime API allocates rows and layers of rows", "[api]") {
  make_current(0);
  void* memory = nullptr;
  std::size_t pitch = 0;
  CHECK(cudaMallocPitch(&memory, &pitch, 700, 10) == cudaSuccess);
  CHECK(pitch == 1024);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaMallocPitch(&memory, &pitch, 0, 10) == cudaSuccess);
  CHECK(memory == nullptr);
  CHECK(cudaMallocPitch(nullptr, &pitch, 1, 1) == cudaErrorInvalidValue);
  CHECK(cudaMallocPitch(&memory, &pitch, ~std::size_t{0}, 1) == cudaErrorInvalidValue);

  cudaPitchedPtr layers{};
  CHECK(cudaMalloc3D(&layers, {100, 20, 30}) == cudaSuccess);
  CHECK(layers.pitch == 512);
  CHECK(layers.xsize == 100);
  CHECK(layers.ysize == 20);
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange(nullptr, &bytes, reinterpret_cast<CUdeviceptr>(layers.ptr)) ==
        CUDA_SUCCESS);
  CHECK(bytes == 512 * 20 * 30);
  CHECK(cudaFree(layers.ptr) == cudaSuccess);
  CHECK(cudaMalloc3D(&layers, {100, 0, 30}) == cudaSuccess);
  CHECK(layers.ptr == nullptr);
  CHECK(cudaMalloc3D(&layers, {1, ~std::size_t{0}, 30}) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc3D(&layers, {~std::size_t{0}, 1, 1}) == cudaErrorInvalidValue);
}

TEST_CASE("any two devices can access each other, and none itself", "[api]") {
  session();
  int can = -1;
  CHECK(cuDeviceCanAccessPeer(&can, 0, 1) == CUDA_SUCCESS);
  CHECK(can == 1);
  CHECK(cuDeviceCanAccessPeer(&can, 1, 1) == CUDA_SUCCESS);
  CHECK(can == 0);
  CHECK(cuDeviceCanAccessPeer(nullptr, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  for (const int none : {-1, 2, 99}) {
    CHECK(cuDeviceCanAccessPeer(&can, none, 1) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceCanAccessPeer(&can, 0, none) == CUDA_ERROR_INVALID_DEVICE);
  }
  CHECK(cudaDeviceCanAccessPeer(&can, 1, 0) == cudaSuccess);
  CHECK(can == 1);

  int value = -1;
  CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1) ==
        CUDA_SUCCESS);
  CHECK(value == 1);
  CHECK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrCudaArrayAccessSupported, 0, 1) ==
        cudaSuccess);
  CHECK(value == 0);
  for (const int unknown : {0, 6, -1})
    CHECK(cuDeviceGetP2PAttribute(&value, static_cast<CUdevice_P2PAttribute>(unknown), 0, 1) ==
          CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetP2PAttribute(nullptr, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1, 1) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 2) ==
        CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("peer access is enabled once and disabled once", "[api]") {
  make_current(0);
  const CUcontext peer = session().context(1);
  CHECK(cuCtxDisablePeerAccess(peer) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CHECK(cuCtxEnablePeerAccess(peer, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxEnablePeerAccess(peer, 0) == CUDA_SUCCESS);
  CHECK(cuCtxEnablePeerAccess(peer, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CHECK(cuCtxDisablePeerAccess(peer) == CUDA_SUCCESS);
  CHECK(cuCtxDisablePeerAccess(peer) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  const CUcontext none = reinterpret_cast<CUcontext>(std::uintptr_t{0x77});
  for (const CUcontext wrong : {static_cast<CUcontext>(nullptr), none, session().context(0)})
    CHECK(cuCtxEnablePeerAccess(wrong, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxDisablePeerAccess(none) == CUDA_ERROR_INVALID_CONTEXT);
  CUcontext second = nullptr;
  WHERRY_TRY(cuCtxCreate(&second, nullptr, 0, 0));
  CHECK(cuCtxEnablePeerAccess(session().context(0), 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  WHERRY_TRY(cuCtxDestroy(second));
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  while (cuCtxPopCurrent(nullptr) == CUDA_SUCCESS) continue;
  CHECK(cuCtxEnablePeerAccess(peer, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxDisablePeerAccess(peer) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("the runtime API enables peer access by the number of the device", "[api]") {
  session();
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaDeviceDisablePeerAccess(0) == cudaErrorPeerAccessNotEnabled);
  CHECK(cudaDeviceEnablePeerAccess(0, 1) == cudaErrorInvalidValue);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CHECK(cudaDeviceDisablePeerAccess(0) == cudaSuccess);
  for (const int wrong : {1, 2, -1})
    CHECK(cudaDeviceEnablePeerAccess(wrong, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceDisablePeerAccess(9) == cudaErrorInvalidDevice);
}

TEST_CASE("pools consist of device memory", "[api]") {
  session();
  CUmemoryPool pool = nullptr;
  const CUmemPoolProps good = properties(1);
  CHECK(cuMemPoolCreate(nullptr, &good) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolCreate(&pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
  const auto refused = [&](auto change, CUresult expected) {
    CUmemPoolProps wanted = good;
    change(wanted);
    CHECK(cuMemPoolCreate(&pool, &wanted) == expected);
  };
  refused([](auto& p) { p.allocType = CU_MEM_ALLOCATION_TYPE_INVALID; }, CUDA_ERROR_INVALID_VALUE);
  refused([](auto& p) { p.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED; }, CUDA_ERROR_NOT_SUPPORTED);
  refused([](auto& p) { p.location.id = 7; }, CUDA_ERROR_INVALID_DEVICE);
  refused([](auto& p) { p.location.type = CU_MEM_LOCATION_TYPE_INVALID; },
          CUDA_ERROR_INVALID_VALUE);
  refused([](auto& p) { p.location.type = CU_MEM_LOCATION_TYPE_HOST; }, CUDA_ERROR_NOT_SUPPORTED);
  refused([](auto& p) { p.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC; }, CUDA_ERROR_NOT_SUPPORTED);
  for (const unsigned type : {2u, 3u, 4u, 16u})
    refused([type](auto& p) { p.handleTypes = static_cast<CUmemAllocationHandleType>(type); },
            CUDA_ERROR_INVALID_VALUE);
  refused([](auto& p) { p.reserved[53] = 1; }, CUDA_ERROR_INVALID_VALUE);
  CHECK(pool == nullptr);

  REQUIRE(cuMemPoolCreate(&pool, &good) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
  CHECK(cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolDestroy(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a device has a default pool, and another pool can become its current one", "[api]") {
  session();
  CUmemoryPool initial = nullptr;
  CUmemoryPool current = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&initial, 1) == CUDA_SUCCESS);
  CHECK(cuDeviceGetMemPool(&current, 1) == CUDA_SUCCESS);
  CHECK(initial == current);
  CHECK(cuDeviceGetMemPool(&current, 0) == CUDA_SUCCESS);
  CHECK(initial != current);
  CHECK(cuDeviceGetDefaultMemPool(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetDefaultMemPool(&current, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuDeviceGetMemPool(&current, -1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuMemPoolDestroy(initial) == CUDA_ERROR_INVALID_VALUE);
  {
    const OwnPool own(1);
    CHECK(cuDeviceSetMemPool(0, own) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuDeviceSetMemPool(5, own) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceSetMemPool(1, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuDeviceSetMemPool(1, own) == CUDA_SUCCESS);
    CHECK(cuDeviceGetMemPool(&current, 1) == CUDA_SUCCESS);
    CHECK(current == own);
  }
  CHECK(cuDeviceGetMemPool(&current, 1) == CUDA_SUCCESS);
  CHECK(current == initial);
}

TEST_CASE("attributes of pools have two sizes, and some cannot be set", "[api]") {
  const OwnPool pool(0);
  for (const auto attribute :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int value[2] = {7, 7};
    CHECK(cuMemPoolGetAttribute(pool, attribute, value) == CUDA_SUCCESS);
    CHECK(value[0] == 1);
    CHECK(value[1] == 7);
    value[0] = 0;
    CHECK(cuMemPoolSetAttribute(pool, attribute, value) == CUDA_SUCCESS);
    value[0] = 7;
    CHECK(cuMemPoolGetAttribute(pool, attribute, value) == CUDA_SUCCESS);
    CHECK(value[0] == 0);
  }
  cuuint64_t number = 5;
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number) == CUDA_SUCCESS);
  CHECK(number == 0);
  number = ~cuuint64_t{0};
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number) == CUDA_SUCCESS);
  for (const auto attribute :
       {CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH}) {
    number = 1;
    CHECK(cuMemPoolSetAttribute(pool, attribute, &number) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemPoolGetAttribute(pool, attribute, &number) == CUDA_SUCCESS);
    CHECK(number == 0);
  }
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &number) == CUDA_SUCCESS);
  for (const int unknown : {0, 9, -1})
    CHECK(cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(unknown), &number) ==
          CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolGetAttribute(nullptr, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &number) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("access to pools is given to devices, for reading and writing or not at all", "[api]") {
  const OwnPool pool(0);
  const auto access_of = [&](int device) {
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_MAX;
    CUmemLocation where{CU_MEM_LOCATION_TYPE_DEVICE, device};
    CHECK(cuMemPoolGetAccess(&flags, pool, &where) == CUDA_SUCCESS);
    return flags;
  };
  const auto set = [&](CUmemLocationType type, int id, CUmemAccess_flags flags) {
    const CUmemAccessDesc wanted{{type, id}, flags};
    return cuMemPoolSetAccess(pool, &wanted, 1);
  };
  CHECK(access_of(0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(access_of(1) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(set(CU_MEM_LOCATION_TYPE_DEVICE, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_SUCCESS);
  CHECK(access_of(1) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(set(CU_MEM_LOCATION_TYPE_DEVICE, 1, CU_MEM_ACCESS_FLAGS_PROT_READ) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(set(CU_MEM_LOCATION_TYPE_DEVICE, 2, CU_MEM_ACCESS_FLAGS_PROT_NONE) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(set(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(set(CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(access_of(1) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(set(CU_MEM_LOCATION_TYPE_DEVICE, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE) == CUDA_SUCCESS);
  CHECK(access_of(1) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(cuMemPoolSetAccess(pool, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolGetAccess(nullptr, pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("invalid stream-ordered allocations and frees are refused", "[api]") {
  make_current(0);
  const CUstream stream = session().stream(0);
  CUdeviceptr address = no_address;
  CHECK(cuMemAllocAsync(nullptr, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocAsync(&address, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(address == 0);
  CHECK(cuMemAllocAsync(&address, 1, reinterpret_cast<CUstream>(std::uintptr_t{0x99})) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuMemAllocFromPoolAsync(&address, 1, nullptr, stream) == CUDA_ERROR_INVALID_VALUE);
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} / 2, 65 * mebibyte})
    CHECK(cuMemAllocAsync(&address, bytes, stream) == CUDA_ERROR_OUT_OF_MEMORY);

  CUdeviceptr managed = 0;
  WHERRY_TRY(cuMemAllocManaged(&managed, mebibyte, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemFreeAsync(managed, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(managed) == CUDA_SUCCESS);

  REQUIRE(cuMemAllocAsync(&address, 5000, stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(address + 512, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(address, reinterpret_cast<CUstream>(std::uintptr_t{0x99})) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuMemFreeAsync(address, stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(address, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("the runtime API has pools, too", "[api]") {
  session();
  CHECK(cudaSetDevice(0) == cudaSuccess);
  int supported = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0) == cudaSuccess);
  CHECK(supported == 1);
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &wanted) == cudaSuccess);
  void* memory = nullptr;
  CHECK(cudaMallocFromPoolAsync(&memory, 100, pool, nullptr) == cudaSuccess);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, memory) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaErrorInvalidValue);
  // Memory of either kind is freed by either function.
  CHECK(cudaMallocAsync(&memory, 100, nullptr) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaMalloc(&memory, 100) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  std::uint64_t used = 1;
  void* pieces[2] = {};
  CHECK(cudaMallocFromPoolAsync(&pieces[0], 4096, pool, nullptr) == cudaSuccess);
  CHECK(cudaMallocFromPoolAsync(&pieces[1], 2048, pool, nullptr) == cudaSuccess);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
  CHECK(used == 6144);
  for (void* const piece : pieces) CHECK(cudaFree(piece) == cudaSuccess);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
  CHECK(used == 0);
  CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  CHECK(cudaDeviceGetMemPool(&pool, 0) == cudaSuccess);
  CHECK(cudaDeviceSetMemPool(0, pool) == cudaSuccess);
}

}  // namespace wherry::test::device_memory_test
