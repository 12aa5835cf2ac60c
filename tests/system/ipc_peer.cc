// The program that system/ipc_peer.h describes.
#include "system/ipc_peer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "support/fd_message.h"
#include "support/nobody.h"
#include "support/session.h"
#include "support/stage.h"

using namespace wherry::test;

namespace {

constexpr int socket_fd = 3;

template <typename To>
To as(std::uint64_t number) {
  return reinterpret_cast<To>(static_cast<std::uintptr_t>(number));
}
template <typename Pointer>
std::uint64_t number_of(Pointer* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Memory that devices see, too: mapped before they start.
struct Common {
  std::uint64_t gate;  // kernels wait until it is not 0
  std::uint64_t word;  // the value that a kernel has read
};
Common* map_common() {
  void* const place =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  expect(place != MAP_FAILED, "no shared memory");
  return static_cast<Common*>(place);
}

struct Server {
  Common* const common = map_common();
  Session session{ipc_devices};

  std::uint64_t read(int device, const std::uint64_t* word) {
    session.run(device, [common = common, word] { common->word = *word; });
    return common->word;
  }
  void write(int device, std::uint64_t* word, std::uint64_t value) {
    session.run(device, [word, value] { *word = value; });
  }
  void hold(int device) {
    __atomic_store_n(&common->gate, 0, __ATOMIC_SEQ_CST);
    session.launch(device, 1, [common = common](std::size_t) {
      while (__atomic_load_n(&common->gate, __ATOMIC_SEQ_CST) == 0) ::usleep(1000);
    });
  }
  void release() { __atomic_store_n(&common->gate, 1, __ATOMIC_SEQ_CST); }
};

CUresult make_pool(int device, std::uint64_t& pool) {
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = location_of(device);
  CUmemoryPool made = nullptr;
  const CUresult result = cuMemPoolCreate(&made, &wanted);
  pool = number_of(made);
  return result;
}

CUresult export_physical(const Request& request, int& descriptor) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = location_of(request.device);
  CUmemGenericAllocationHandle made{};
  CUresult result = cuMemCreate(&made, request.value, &wanted, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemExportToShareableHandle(&descriptor, made, wanted.requestedHandleTypes, 0);
  const CUresult released = cuMemRelease(made);
  return result == CUDA_SUCCESS ? released : result;
}

CUresult serve_memory(Server& server, const Request& request, Answer& answer) {
  const CUdeviceptr address = request.address;
  CUdeviceptr found = 0;
  CUresult result = CUDA_SUCCESS;
  switch (request.ask) {
    case Ask::allocate:
      result = cuMemAlloc(&found, request.value);
      break;
    case Ask::free:
      return cuMemFree(address);
    case Ask::free_async:
      result = cuMemFreeAsync(address, server.session.stream(request.device));
      return result == CUDA_SUCCESS ? server.session.wait(request.device) : result;
    case Ask::get_handle:
      return cuIpcGetMemHandle(&answer.handle, address);
    case Ask::open_handle:
      result = cuIpcOpenMemHandle(&found, request.handle, request.flags);
      break;
    case Ask::close_handle:
      return cuIpcCloseMemHandle(address);
    case Ask::read:
      answer.value = server.read(request.device, as<std::uint64_t*>(address));
      return CUDA_SUCCESS;
    case Ask::write:
      server.write(request.device, as<std::uint64_t*>(address), request.value);
      return CUDA_SUCCESS;
    case Ask::read_by_copy:
      return cuMemcpyDtoH(&answer.value, address, sizeof answer.value);
    case Ask::write_by_copy:
      return cuMemcpyHtoD(address, &request.value, sizeof request.value);
    default: {
      std::size_t free = 0, total = 0;
      result = cuMemGetInfo(&free, &total);
      answer.value = free;
      return result;
    }
  }
  answer.value = found;
  return result;
}

CUresult serve_pool(Server& server, const Request& request, Answer& answer, int fd) {
  const auto pool = as<CUmemoryPool>(request.address);
  CUmemPoolPtrExportData data{};
  CUdeviceptr address = 0;
  CUmemoryPool found = nullptr;
  CUresult result = CUDA_SUCCESS;
  switch (request.ask) {
    case Ask::make_pool:
      return make_pool(request.device, answer.value);
    case Ask::export_pool:
      return cuMemPoolExportToShareableHandle(&answer.fd, pool,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    case Ask::import_pool:
      result = cuMemPoolImportFromShareableHandle(&found, as<void*>(static_cast<unsigned>(fd)),
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      answer.value = number_of(found);
      return result;
    case Ask::allocate_pooled:
      result = cuMemAllocFromPoolAsync(&address, request.value, pool,
                                       server.session.stream(request.device));
      answer.value = address;
      return result;
    case Ask::export_pointer:
      result = cuMemPoolExportPointer(&data, request.address);
      std::memcpy(&answer.handle, &data, sizeof data);
      return result;
    default:
      std::memcpy(&data, &request.handle, sizeof data);
      result = cuMemPoolImportPointer(&address, pool, &data);
      answer.value = address;
      return result;
  }
}

CUresult serve_event(Server& server, const Request& request, Answer& answer) {
  const auto event = as<CUevent>(request.address);
  const CUstream stream = server.session.stream(request.device);
  CUipcEventHandle handle{};
  CUevent found = nullptr;
  CUresult result = CUDA_SUCCESS;
  switch (request.ask) {
    case Ask::make_event:
      result = cuEventCreate(&found, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
      answer.value = number_of(found);
      return result;
    case Ask::get_event_handle:
      result = cuIpcGetEventHandle(&handle, event);
      std::memcpy(&answer.handle, &handle, sizeof handle);
      return result;
    case Ask::open_event_handle:
      std::memcpy(&handle, &request.handle, sizeof handle);
      result = cuIpcOpenEventHandle(&found, handle);
      answer.value = number_of(found);
      return result;
    case Ask::destroy_event:
      return cuEventDestroy(event);
    case Ask::record:
      return cuEventRecord(event, stream);
    case Ask::query:
      return cuEventQuery(event);
    case Ask::await:
      return cuEventSynchronize(event);
    default:
      return cuStreamWaitEvent(stream, event, 0);
  }
}

CUresult serve(Server& server, const Request& request, Answer& answer, int fd) {
  WHERRY_TRY(cuCtxSetCurrent(server.session.context(request.device)));
  switch (request.ask) {
    case Ask::device_process:
      answer.value = static_cast<std::uint64_t>(device_process(request.device));
      return CUDA_SUCCESS;
    case Ask::export_physical:
      return export_physical(request, answer.fd);
    case Ask::become_nobody:
      become_nobody();
      return CUDA_SUCCESS;
    case Ask::hold:
      server.hold(request.device);
      return CUDA_SUCCESS;
    case Ask::release:
      server.release();
      return CUDA_SUCCESS;
    default:
      break;
  }
  if (request.ask >= Ask::make_event) return serve_event(server, request, answer);
  if (request.ask >= Ask::make_pool) return serve_pool(server, request, answer, fd);
  return serve_memory(server, request, answer);
}

}  // namespace

int main() {
  try {
    Server server;
    Answer ready;
    expect(send_to(socket_fd, ready), "the test is gone");
    Request request;
    for (int fd = -1; receive_from(socket_fd, request, fd);) {
      Answer answer;
      answer.result = serve(server, request, answer, fd);
      if (fd >= 0) ::close(fd);
      expect(send_to(socket_fd, answer, answer.fd), "the test is gone");
      if (answer.fd >= 0) ::close(answer.fd);
    }
    server.release();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the other program: %s\n", error.what());
    return 1;
  }
}
