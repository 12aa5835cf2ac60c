// The driver API for tests: errors become exceptions with the error's name and the call.
#pragma once

#include <wherry/cuda.h>
#include <wherry/events.h>
#include <wherry/wherry.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace wherry::test {

inline constexpr std::size_t mebibyte = std::size_t{1} << 20;

// The error's name, for messages.
std::string name_of(CUresult result);
// Throws std::runtime_error unless `result` is CUDA_SUCCESS.
void check(CUresult result, const char* what);
#define WHERRY_TRY(call) ::wherry::test::check((call), #call)

// Throws std::runtime_error with the message unless `condition`. For code where Catch2's assertions
// cannot be used: other processes and threads.
void expect(bool condition, const std::string& message);

// The initialized library: sets WHERRY_DEVICES, calls cuInit, retains every device's primary
// context, and makes device 0's current. Once per process; the library lives until the process
// ends.
class Session {
 public:
  explicit Session(const char* devices);

  int devices() const { return static_cast<int>(contexts_.size()); }
  CUcontext context(int device) const { return contexts_.at(static_cast<std::size_t>(device)); }
  CUstream stream(int device) const { return streams_.at(static_cast<std::size_t>(device)); }
  // Replaces the stream, which cuDevicePrimaryCtxReset has destroyed.
  void renew_stream(int device);
  // Resets the device's primary context and renews the stream.
  void reset(int device);

  // Calls function(index) for every index below `items` on the device, asynchronously. The
  // function's captures are copied as bytes.
  template <typename Function>
  void launch(int device, std::size_t items, const Function& function) const {
    static_assert(std::is_trivially_copyable_v<Function>);
    WHERRY_TRY(
        wherryLaunchKernel(stream(device), call<Function>, &function, sizeof function, items));
  }
  CUresult wait(int device) const { return cuStreamSynchronize(stream(device)); }
  // Runs function() once on the device and waits.
  template <typename Function>
  void run(int device, const Function& function) const {
    launch(device, 1, [function](std::size_t) { function(); });
    WHERRY_TRY(wait(device));
  }

 private:
  template <typename Function>
  static void call(const void* args, std::size_t begin, std::size_t end) {
    const Function& function = *static_cast<const Function*>(args);
    for (std::size_t i = begin; i < end; ++i) function(i);
  }

  std::vector<CUcontext> contexts_;
  std::vector<CUstream> streams_;
};

// A managed allocation, freed at the end of the scope.
template <typename T>
class Managed {
 public:
  explicit Managed(std::size_t count) : count_(count) {
    CUdeviceptr pointer = 0;
    WHERRY_TRY(cuMemAllocManaged(&pointer, count * sizeof(T), CU_MEM_ATTACH_GLOBAL));
    data_ = reinterpret_cast<T*>(pointer);
  }
  ~Managed() { free(); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;

  T* data() const { return data_; }
  T& operator[](std::size_t index) const { return data_[index]; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void free() {
    if (data_ != nullptr) cuMemFree(reinterpret_cast<CUdeviceptr>(data_));
    data_ = nullptr;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

wherryPageState page_state(const void* address);
wherryStats read_stats();
// Removes recorded events and returns them, `most` at most.
std::vector<wherryEvent> read_events(std::size_t most);
// The free bytes that cuMemGetInfo reports for the current context.
std::size_t free_memory();
pid_t device_process(int device);
CUcontext current_context();

template <typename Value>
Value attribute(CUpointer_attribute which, CUdeviceptr address) {
  Value value{};
  WHERRY_TRY(cuPointerGetAttribute(&value, which, address));
  return value;
}

}  // namespace wherry::test
