// For <wherry/wherry.hpp>: calls of the C functions, with their errors as exceptions.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "../cuda.h"
#include "../wherry.h"

namespace wherry {

// The exception of a failed call. what() returns "call: CUDA_ERROR_NAME (description)", and, where
// the library knows them, ": " with the reason and what to do: see wherryGetLastErrorMessage.
class error : public std::runtime_error {
 public:
  error(CUresult code, const char* call) : std::runtime_error(text(code, call)), code_(code) {}

  CUresult code() const noexcept { return code_; }

 private:
  static std::string text(CUresult code, const char* call) {
    const char* name = nullptr;
    const char* description = nullptr;
    cuGetErrorName(code, &name);
    cuGetErrorString(code, &description);
    std::string line = std::string(call) + ": ";
    line += name != nullptr ? name : "error " + std::to_string(static_cast<int>(code));
    if (description != nullptr) line += std::string(" (") + description + ")";
    // If this failure is not of a call of the library, the message is of another failure.
    const std::string_view message = wherryGetLastErrorMessage();
    return message.starts_with(line) ? std::string(message) : line;
  }

  CUresult code_;
};

namespace detail {

inline void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw error(result, call);
}

// A device's primary context, retained while this object exists.
class primary_context {
 public:
  explicit primary_context(CUdevice device) : device_(device) {
    check(cuDevicePrimaryCtxRetain(&handle_, device), "cuDevicePrimaryCtxRetain");
  }
  ~primary_context() { cuDevicePrimaryCtxRelease(device_); }
  primary_context(const primary_context&) = delete;
  primary_context& operator=(const primary_context&) = delete;

  CUcontext handle() const { return handle_; }
  CUdevice device() const { return device_; }

 private:
  CUdevice device_;
  CUcontext handle_ = nullptr;
};

// Makes a context current for one scope.
class scoped_context {
 public:
  explicit scoped_context(CUcontext context) {
    check(cuCtxPushCurrent(context), "cuCtxPushCurrent");
  }
  ~scoped_context() { cuCtxPopCurrent(nullptr); }
  scoped_context(const scoped_context&) = delete;
  scoped_context& operator=(const scoped_context&) = delete;
};

// Managed memory belongs to no context, but calls that work on it need one: the current context,
// else that of device 0.
template <typename Call>
void with_some_context(const Call& call) {
  check(cuInit(0), "cuInit");
  CUcontext current = nullptr;
  check(cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current != nullptr) return call();
  const primary_context first(0);
  const scoped_context scope(first.handle());
  call();
}

inline void* allocate_managed(std::size_t bytes) {
  CUdeviceptr address = 0;
  with_some_context([&] {
    check(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  });
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

inline CUdeviceptr device_pointer(const void* pointer) noexcept {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

inline void free_managed(const void* pointer) noexcept {
  cuMemFree(device_pointer(pointer));
}

// CUDA 12 calls this function cuMemPrefetchAsync_v2, CUDA 13 cuMemPrefetchAsync.
inline CUresult prefetch(CUdeviceptr first, std::size_t bytes, CUmemLocation where, CUstream in) {
#if CUDA_VERSION < 13000
  return cuMemPrefetchAsync_v2(first, bytes, where, 0, in);
#else
  return cuMemPrefetchAsync(first, bytes, where, 0, in);
#endif
}

// Allocates for containers, which expect std::bad_alloc. The alignment can be at most that of the
// allocation itself, which is at least a page.
inline void* allocate_managed_aligned(std::size_t bytes, std::size_t alignment) {
  void* pointer = nullptr;
  try {
    pointer = allocate_managed(bytes == 0 ? 1 : bytes);
  } catch (const error& failure) {
    if (failure.code() == CUDA_ERROR_OUT_OF_MEMORY) throw std::bad_alloc();
    throw;
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    free_managed(pointer);
    throw std::bad_alloc();
  }
  return pointer;
}

// The kernel of parallel_for. The launch's arguments are the bytes of the callable.
template <typename Function>
void run_items(const void* args, std::size_t begin, std::size_t end) {
  const Function& function = *static_cast<const Function*>(args);
  if constexpr (std::is_invocable_v<const Function&, std::size_t>) {
    for (std::size_t i = begin; i < end; ++i) function(i);
  } else {
    function(begin, end);
  }
}

}  // namespace detail

}  // namespace wherry
