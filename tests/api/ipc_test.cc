// Results of the functions for shared memory, pools and events for right and wrong arguments, in a
// single process.
#include <fcntl.h>
#include <unistd.h>
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>

#include <cstring>
#include <thread>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::ipc_test {

namespace {

constexpr unsigned lazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr auto descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

const Session& session() {
  static const Session the_session("capacity=64M;capacity=64M");
  return the_session;
}

// A memory pool that other processes may open, or only this one.
class OwnPool {
 public:
  explicit OwnPool(CUmemAllocationHandleType type) {
    CUmemPoolProps wanted{};
    wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.handleTypes = type;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    session();
    WHERRY_TRY(cuMemPoolCreate(&pool_, &wanted));
  }
  ~OwnPool() { cuMemPoolDestroy(pool_); }
  OwnPool(const OwnPool&) = delete;
  OwnPool& operator=(const OwnPool&) = delete;
  operator CUmemoryPool() const { return pool_; }

  CUdeviceptr allocate() const {
    CUdeviceptr address = 0;
    WHERRY_TRY(cuMemAllocFromPoolAsync(&address, 10'000, pool_, session().stream(0)));
    return address;
  }

 private:
  CUmemoryPool pool_ = nullptr;
};

bool is_zero(const CUipcMemHandle& handle) {
  const CUipcMemHandle zero{};
  return std::memcmp(&handle, &zero, sizeof zero) == 0;
}

}  // namespace

TEST_CASE("handles exist for device memory only", "[api]") {
  const Managed<char> managed((session(), 4096));
  CUipcMemHandle handle{};
  const auto refused = [&](CUdeviceptr address) {
    CHECK(cuIpcGetMemHandle(&handle, address) == CUDA_ERROR_INVALID_VALUE);
    CHECK(is_zero(handle));
  };
  refused(0);
  refused(0x1000);
  refused(reinterpret_cast<CUdeviceptr>(&handle));
  refused(reinterpret_cast<CUdeviceptr>(managed.data()));
  void* host = nullptr;
  WHERRY_TRY(cuMemAllocHost(&host, 4096));
  refused(reinterpret_cast<CUdeviceptr>(host));
  WHERRY_TRY(cuMemFreeHost(host));
  CUdeviceptr pooled = 0;
  WHERRY_TRY(cuMemAllocAsync(&pooled, 4096, session().stream(0)));
  refused(pooled);
  WHERRY_TRY(cuMemFree(pooled));

  CUdeviceptr own = 0;
  WHERRY_TRY(cuMemAlloc(&own, 1000));
  CHECK(cuIpcGetMemHandle(nullptr, own) == CUDA_ERROR_INVALID_VALUE);
  refused(own + 1000);
  CHECK(cuIpcGetMemHandle(&handle, own + 999) == CUDA_SUCCESS);
  CHECK(!is_zero(handle));
  std::thread([&] { CHECK(cuIpcGetMemHandle(&handle, own) == CUDA_ERROR_INVALID_CONTEXT); }).join();
  WHERRY_TRY(cuMemFree(own));
  std::memset(&handle, 0, sizeof handle);
  refused(own);
}

TEST_CASE("a program cannot open its own handles", "[api]") {
  session();
  CUdeviceptr own = 0, opened = 1;
  WHERRY_TRY(cuMemAlloc(&own, 1000));
  CUipcMemHandle handle{};
  WHERRY_TRY(cuIpcGetMemHandle(&handle, own));
  CHECK(cuIpcOpenMemHandle(nullptr, handle, lazy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcOpenMemHandle(&opened, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(opened == 0);
  CHECK(cuIpcOpenMemHandle(&opened, handle, lazy) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuIpcOpenMemHandle(&opened, {}, lazy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcCloseMemHandle(own) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcCloseMemHandle(0) == CUDA_ERROR_INVALID_VALUE);
  std::thread([&] {
    CHECK(cuIpcOpenMemHandle(&opened, handle, lazy) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuIpcCloseMemHandle(own) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  WHERRY_TRY(cuMemFree(own));
}

TEST_CASE("only pools that were created for export are exported", "[api]") {
  const OwnPool shared(descriptor);
  const OwnPool own(CU_MEM_HANDLE_TYPE_NONE);
  int types = 0;
  CHECK(cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0) ==
        CUDA_SUCCESS);
  CHECK(types == descriptor);
  int fd = -1;
  CHECK(cuMemPoolExportToShareableHandle(&fd, own, descriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportToShareableHandle(nullptr, shared, descriptor, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportToShareableHandle(&fd, shared, descriptor, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportToShareableHandle(&fd, shared, CU_MEM_HANDLE_TYPE_FABRIC, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportToShareableHandle(&fd, nullptr, descriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fd == -1);

  const CUdeviceptr early = shared.allocate();
  CUmemPoolPtrExportData data{};
  CHECK(cuMemPoolExportPointer(&data, early) == CUDA_ERROR_INVALID_VALUE);  // not exported yet
  REQUIRE(cuMemPoolExportToShareableHandle(&fd, shared, descriptor, 0) == CUDA_SUCCESS);
  CHECK(::fcntl(fd, F_GETFD) == FD_CLOEXEC);
  CHECK(::pwrite(fd, "", 1, 0) == -1);
  CHECK(cuMemPoolExportPointer(&data, early) == CUDA_SUCCESS);
  CHECK(cuMemPoolExportPointer(&data, early + 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportPointer(nullptr, early) == CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr elsewhere = own.allocate();
  CHECK(cuMemPoolExportPointer(&data, elsewhere) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolExportPointer(&data, 0) == CUDA_ERROR_INVALID_VALUE);
  unsigned long long of_memory = 0;
  CHECK(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, early) ==
        CUDA_SUCCESS);
  CHECK(of_memory == descriptor);

  CUmemoryPool imported = nullptr;
  void* const handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
  CHECK(cuMemPoolImportFromShareableHandle(&imported, handle, descriptor, 0) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemPoolImportFromShareableHandle(nullptr, handle, descriptor, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolImportFromShareableHandle(&imported, handle, descriptor, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolImportFromShareableHandle(&imported, handle, CU_MEM_HANDLE_TYPE_WIN32, 0) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemPoolImportFromShareableHandle(&imported, nullptr, descriptor, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  ::close(fd);
  CHECK(cuMemPoolImportFromShareableHandle(&imported, handle, descriptor, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(imported == nullptr);
  CUdeviceptr address = 1;
  CHECK(cuMemPoolImportPointer(&address, shared, &data) == CUDA_ERROR_INVALID_VALUE);
  CHECK(address == 0);
  CHECK(cuMemFree(early) == CUDA_SUCCESS);
  CHECK(cuMemPoolExportPointer(&data, early) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(elsewhere) == CUDA_SUCCESS);
}

TEST_CASE("handles exist for interprocess events only", "[api]") {
  session();
  CUevent plain = nullptr, shared = nullptr, opened = nullptr;
  WHERRY_TRY(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
  WHERRY_TRY(cuEventCreate(&shared, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CUipcEventHandle handle{}, again{};
  CHECK(cuIpcGetEventHandle(&handle, plain) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuIpcGetEventHandle(&handle, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuIpcGetEventHandle(nullptr, shared) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcGetEventHandle(&handle, shared) == CUDA_SUCCESS);
  CHECK(cuIpcGetEventHandle(&again, shared) == CUDA_SUCCESS);
  CHECK(std::memcmp(&handle, &again, sizeof handle) == 0);
  CHECK(cuIpcOpenEventHandle(nullptr, handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcOpenEventHandle(&opened, {}) == CUDA_ERROR_MAP_FAILED);
  CHECK(cuIpcOpenEventHandle(&opened, handle) == CUDA_ERROR_INVALID_CONTEXT);
  CUipcMemHandle wrong{};
  std::memcpy(&wrong, &handle, sizeof wrong);
  CUdeviceptr address = 0;
  CHECK(cuIpcOpenMemHandle(&address, wrong, lazy) == CUDA_ERROR_INVALID_VALUE);
  float time = 0;
  CHECK(cuEventElapsedTime(&time, shared, shared) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventDestroy(shared) == CUDA_SUCCESS);
  CHECK(cuIpcGetEventHandle(&handle, shared) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventDestroy(plain) == CUDA_SUCCESS);
}

TEST_CASE("an interprocess event works like any other in its own process", "[api]") {
  const CUstream stream = session().stream(0);
  const CUstream other = session().stream(1);
  CUevent event = nullptr;
  WHERRY_TRY(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
  const Managed<int> words(2);
  int* const word = words.data();
  for (int round = 1; round <= 20; ++round) {
    session().launch(0, 1, [word](std::size_t) {
      ::usleep(5000);
      ++word[0];
    });
    REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
    WHERRY_TRY(cuStreamWaitEvent(other, event, 0));
    session().launch(1, 1, [word](std::size_t) { word[1] = word[0]; });
    CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
    CHECK(cuEventQuery(event) == CUDA_SUCCESS);
    CHECK(word[0] == round);
    WHERRY_TRY(session().wait(1));
    CHECK(word[1] == round);
  }
  // A stream that waits for the event goes on waiting after the event's destruction.
  session().launch(0, 1, [word](std::size_t) {
    ::usleep(20'000);
    word[0] = 100;
  });
  WHERRY_TRY(cuEventRecord(event, stream));
  WHERRY_TRY(cuStreamWaitEvent(other, event, 0));
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  session().launch(1, 1, [word](std::size_t) { word[1] = word[0]; });
  WHERRY_TRY(session().wait(1));
  CHECK(word[1] == 100);
}

TEST_CASE("the runtime API shares memory and events, too", "[api]") {
  session();
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 1000) == cudaSuccess);
  cudaIpcMemHandle_t handle{};
  CHECK(cudaIpcGetMemHandle(&handle, memory) == cudaSuccess);
  CHECK(cudaIpcGetMemHandle(&handle, nullptr) == cudaErrorInvalidValue);
  void* opened = &handle;
  CHECK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess) ==
        cudaErrorDeviceUninitialized);
  CHECK(opened == nullptr);
  CHECK(cudaIpcOpenMemHandle(nullptr, handle, cudaIpcMemLazyEnablePeerAccess) ==
        cudaErrorInvalidValue);
  CHECK(cudaIpcCloseMemHandle(memory) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming) ==
          cudaSuccess);
  cudaIpcEventHandle_t of_event{};
  CHECK(cudaIpcGetEventHandle(&of_event, event) == cudaSuccess);
  CHECK(cudaIpcOpenEventHandle(&event, of_event) == cudaErrorDeviceUninitialized);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}

}  // namespace wherry::test::ipc_test
