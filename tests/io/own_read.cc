// A program that is linked with libwherry.a, and defines read() itself: its calls and those of the
// libraries that it uses find its own function. It gets the archive's wrappers of the other
// functions: pread() into managed memory does not give that memory to Linux.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wherry/cuda.h>

#include <cstdio>
#include <cstdlib>

#include "../support/refused_reads.h"

namespace {

int calls = 0;

void require(bool condition, const char* what) {
  if (condition) return;
  std::printf("%s\n", what);
  std::exit(1);
}

}  // namespace

extern "C" ssize_t read(int fd, void* buffer, std::size_t bytes) {
  ++calls;
  return ::syscall(SYS_read, fd, buffer, bytes);
}

int main() {
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  char byte = 1;
  const int calls_before = calls;
  require(::read(zeros, &byte, 1) == 1 && byte == 0 && calls == calls_before + 1,
          "another read was called");
  require(::dlsym(RTLD_DEFAULT, "read") == reinterpret_cast<void*>(&::read),
          "libraries find another read");
  Dl_info pread_is_in{}, main_is_in{};
  require(::dladdr(::dlsym(RTLD_DEFAULT, "pread64"), &pread_is_in) != 0 &&
              ::dladdr(::dlsym(RTLD_DEFAULT, "read"), &main_is_in) != 0 &&
              pread_is_in.dli_fbase == main_is_in.dli_fbase,
          "libraries do not find the program's pread");
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  require(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
              cuCtxSetCurrent(context) == CUDA_SUCCESS &&
              cuMemAllocManaged(&memory, FILE_BYTES, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS,
          "no managed memory");
  return read_directly(reinterpret_cast<char*>(memory));
}
