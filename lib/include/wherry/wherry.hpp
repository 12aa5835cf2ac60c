// The C++20 interface: managed memory as containers, devices and streams as objects, lambdas as
// kernels.
//
// Header-only, on top of the C functions of <wherry/cuda.h> and <wherry/wherry.h>; a program may
// use both. Errors are thrown as wherry::error. Any thread may use any object, but only one thread
// at a time one object, unless its comment says otherwise. Nothing here changes the calling
// thread's current context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda.h"
#include "detail/calls.hpp"
#include "detail/containers.hpp"
#include "events.h"
#include "explain.h"
#include "wherry.h"

namespace wherry {

// One device: a handle that retains its primary context. Cheap to copy. Any thread.
class device {
 public:
  // Throws CUDA_ERROR_INVALID_DEVICE when there is no such device.
  explicit device(int ordinal = 0) {
    detail::check(cuInit(0), "cuInit");
    CUdevice handle = 0;
    detail::check(cuDeviceGet(&handle, ordinal), "cuDeviceGet");
    context_ = std::make_shared<detail::primary_context>(handle);
  }

  int ordinal() const { return context_->device(); }
  CUcontext context() const { return context_->handle(); }

  std::string name() const {
    char text[256];
    detail::check(cuDeviceGetName(text, sizeof text, ordinal()), "cuDeviceGetName");
    return text;
  }
  // The capacity of the device's pool, in bytes.
  std::size_t total_memory() const {
    std::size_t bytes = 0;
    detail::check(cuDeviceTotalMem(&bytes, ordinal()), "cuDeviceTotalMem");
    return bytes;
  }
  // The bytes of the pool that are unused at this moment.
  std::size_t free_memory() const {
    const detail::scoped_context scope(context());
    std::size_t unused = 0;
    std::size_t total = 0;
    detail::check(cuMemGetInfo(&unused, &total), "cuMemGetInfo");
    return unused;
  }
  int attribute(CUdevice_attribute attribute) const {
    int value = 0;
    detail::check(cuDeviceGetAttribute(&value, attribute, ordinal()), "cuDeviceGetAttribute");
    return value;
  }
  // The OS process that runs this device's kernels.
  pid_t process() const {
    pid_t pid = 0;
    detail::check(wherryGetDeviceProcess(ordinal(), &pid), "wherryGetDeviceProcess");
    return pid;
  }

  // Waits for all work of the device's primary context.
  void synchronize() const {
    const detail::scoped_context scope(context());
    detail::check(cuCtxSynchronize(), "cuCtxSynchronize");
  }
  // Starts a new device process after an error. Memory survives; streams of this device do not.
  void reset() const {
    detail::check(cuDevicePrimaryCtxReset(ordinal()), "cuDevicePrimaryCtxReset");
  }

 private:
  std::shared_ptr<const detail::primary_context> context_;
};

// The library as a whole. Constructing the first object starts the library (cuInit); all objects
// refer to the same library.
class runtime {
 public:
  runtime() { detail::check(cuInit(0), "cuInit"); }

  int device_count() const {
    int count = 0;
    detail::check(cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
  }
  wherry::device device(int ordinal) const { return wherry::device(ordinal); }
  std::vector<wherry::device> devices() const {
    std::vector<wherry::device> all;
    const int count = device_count();
    for (int ordinal = 0; ordinal < count; ++ordinal) all.emplace_back(ordinal);
    return all;
  }

  // The counters, see wherry.h.
  wherryStats stats() const {
    wherryStats stats{};
    stats.size = sizeof stats;
    detail::check(wherryGetStats(&stats), "wherryGetStats");
    return stats;
  }
  // Where the page of a managed address is, see wherry.h.
  wherryPageState page_state(const void* address) const {
    wherryPageState state{};
    state.size = sizeof state;
    detail::check(wherryGetPageState(address, &state), "wherryGetPageState");
    return state;
  }
  // The earlier name of page_state().
  wherryPageState page_info(const void* address) const { return page_state(address); }
  // Why the page of a managed address is where it is, see explain.h.
  wherryExplanation explain_page(const void* address) const {
    wherryExplanation explanation{};
    explanation.size = sizeof explanation;
    detail::check(wherryExplainPage(detail::device_pointer(address), &explanation),
                  "wherryExplainPage");
    return explanation;
  }
  // Explains the page as lines of text, see wherryDescribePage.
  std::string describe_page(const void* address) const {
    std::string text;
    // Decisions may be added between two calls.
    for (std::size_t needed = 1; text.size() < needed;) {
      text.resize(needed);
      detail::check(
          wherryDescribePage(detail::device_pointer(address), text.data(), text.size(), &needed),
          "wherryDescribePage");
    }
    text.resize(std::strlen(text.c_str()));
    return text;
  }
};

class event;

// A queue of work for one device, which runs in order. Move-only. Destroying it does not wait:
// submitted work still finishes.
class stream {
 public:
  // flags: CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING. priority: 0 to -5; lower numbers run first.
  explicit stream(const device& on, unsigned flags = CU_STREAM_NON_BLOCKING, int priority = 0)
      : device_(on) {
    const detail::scoped_context scope(on.context());
    detail::check(cuStreamCreateWithPriority(&handle_, flags, priority),
                  "cuStreamCreateWithPriority");
  }
  stream(stream&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~stream() {
    if (handle_ != nullptr) cuStreamDestroy(handle_);
  }

  CUstream handle() const { return handle_; }
  const wherry::device& device() const { return device_; }

  // Calls function(i) for every i in [0, items), or function(begin, end) for pieces that cover it,
  // on the device's workers, in any order and concurrently. Asynchronous. The callable is copied to
  // the device byte by byte, so it must capture values: numbers, spans, pointers to managed memory.
  // Objects that it captures by reference are in the host's memory, which the device cannot access.
  template <typename Function>
  void parallel_for(std::size_t items, const Function& function) {
    constexpr bool by_index = std::is_invocable_v<const Function&, std::size_t>;
    constexpr bool by_range = std::is_invocable_v<const Function&, std::size_t, std::size_t>;
    static_assert(
        std::is_trivially_copyable_v<Function>,
        "parallel_for: the lambda goes to another process byte by byte, so it must be "
        "trivially copyable: capture numbers, spans and pointers to managed memory by value, "
        "not containers, strings or smart pointers");
    static_assert(by_index || by_range,
                  "parallel_for: the lambda must be callable as f(std::size_t index) or as "
                  "f(std::size_t begin, std::size_t end), and not be mutable");
    static_assert(sizeof(Function) <= WHERRY_MAX_ARGS_SIZE,
                  "parallel_for: the lambda captures more than WHERRY_MAX_ARGS_SIZE bytes; put the "
                  "data into managed memory and capture a pointer to it");
    static_assert(alignof(Function) <= 64,
                  "parallel_for: the lambda captures something aligned to more than 64 bytes");
    if constexpr (std::is_trivially_copyable_v<Function> && (by_index || by_range)) {
      detail::check(wherryLaunchKernel(handle_, &detail::run_items<Function>,
                                       std::addressof(function), sizeof(Function), items),
                    "wherryLaunchKernel");
    }
  }

  // Runs a plain kernel, see wherryLaunchKernel.
  void launch(wherryKernel kernel, const void* args, std::size_t args_size, std::size_t items) {
    detail::check(wherryLaunchKernel(handle_, kernel, args, args_size, items),
                  "wherryLaunchKernel");
  }

  // Calls function() on a thread of the library when the work submitted so far has finished. The
  // function must not throw, and must not call this library. It is not called if the device fails
  // first.
  template <typename Function>
  void then(Function&& function) {
    using Held = std::function<void()>;
    auto held = std::make_unique<Held>(std::forward<Function>(function));
    // A callback instead of a host function: a host function is not called after a failure, so the
    // callable would never be destroyed.
    detail::check(cuStreamAddCallback(
                      handle_,
                      [](CUstream, CUresult status, void* data) {
                        const std::unique_ptr<Held> held(static_cast<Held*>(data));
                        if (status == CUDA_SUCCESS) (*held)();
                      },
                      held.get(), 0),
                  "cuStreamAddCallback");
    [[maybe_unused]] Held* given_away = held.release();
  }

  // Records the event: it stands for the work submitted so far. It must be an event of this
  // stream's device.
  void record(const event& moment);
  // Work that is submitted from now on waits for the work that the event stands for, on any device.
  void wait(const event& moment);

  // Whether all work submitted so far has finished.
  bool idle() const {
    const CUresult result = cuStreamQuery(handle_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    detail::check(result, "cuStreamQuery");
    return true;
  }
  // Waits for all work submitted so far.
  void synchronize() const { detail::check(cuStreamSynchronize(handle_), "cuStreamSynchronize"); }

 private:
  wherry::device device_;
  CUstream handle_ = nullptr;
};

// A point in a stream: the moment when the work submitted to it before stream::record() has
// finished. Move-only.
class event {
 public:
  // flags: CU_EVENT_DEFAULT, or CU_EVENT_DISABLE_TIMING if its time is not needed.
  explicit event(const device& on, unsigned flags = CU_EVENT_DEFAULT) {
    const detail::scoped_context scope(on.context());
    detail::check(cuEventCreate(&handle_, flags), "cuEventCreate");
  }
  event(event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~event() {
    if (handle_ != nullptr) cuEventDestroy(handle_);
  }

  CUevent handle() const { return handle_; }

  // Whether the work has finished; true if the event was never recorded.
  bool done() const {
    const CUresult result = cuEventQuery(handle_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    detail::check(result, "cuEventQuery");
    return true;
  }
  // Waits for the work.
  void synchronize() const { detail::check(cuEventSynchronize(handle_), "cuEventSynchronize"); }
  // The time from `start` to this event, in milliseconds. Requires: both are done, and belong to
  // one device.
  float milliseconds_since(const event& start) const {
    float time = 0;
    detail::check(cuEventElapsedTime(&time, start.handle_, handle_), "cuEventElapsedTime");
    return time;
  }

 private:
  CUevent handle_ = nullptr;
};

inline void stream::record(const event& moment) {
  detail::check(cuEventRecord(moment.handle(), handle_), "cuEventRecord");
}

inline void stream::wait(const event& moment) {
  detail::check(cuStreamWaitEvent(handle_, moment.handle(), 0), "cuStreamWaitEvent");
}

// ---- advice: how the program uses its memory, see cuMemAdvise

// The host's memory as a whole.
struct host_t {};
inline constexpr host_t host{};
// One NUMA node of the host, by its number.
struct host_node {
  int id;
};
// The host's node that is nearest to the calling thread's CPU when the call is made.
struct host_node_current_t {};
inline constexpr host_node_current_t host_node_current{};

// A place that memory can be in: a device, the host, or one of the host's nodes.
class location {
 public:
  location(const device& there) : value_{CU_MEM_LOCATION_TYPE_DEVICE, there.ordinal()} {}
  location(host_t) : value_{CU_MEM_LOCATION_TYPE_HOST, 0} {}
  location(host_node there) : value_{CU_MEM_LOCATION_TYPE_HOST_NUMA, there.id} {}
  location(host_node_current_t) : value_{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0} {}

  CUmemLocation value() const { return value_; }

 private:
  CUmemLocation value_;
};

enum class advice {
  set_read_mostly = CU_MEM_ADVISE_SET_READ_MOSTLY,
  unset_read_mostly = CU_MEM_ADVISE_UNSET_READ_MOSTLY,
  set_preferred_location = CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
  unset_preferred_location = CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
  set_accessed_by = CU_MEM_ADVISE_SET_ACCESSED_BY,
  unset_accessed_by = CU_MEM_ADVISE_UNSET_ACCESSED_BY,
};

// Gives advice for all pages that the elements overlap, which must be managed memory of one
// allocation. Read-mostly advice, and unsetting a preferred location, ignore `where`. An empty span
// does nothing. Any thread.
template <typename T>
void advise(std::span<T> elements, advice what, const location& where = host) {
  if (elements.empty()) return;
  detail::with_some_context([&] {
    detail::check(cuMemAdvise_v2(detail::device_pointer(elements.data()), elements.size_bytes(),
                                 static_cast<CUmem_advise>(what), where.value()),
                  "cuMemAdvise");
  });
}

// Moves all pages that the elements overlap to `where`, ahead of their use and in stream order; see
// cuMemPrefetchAsync. An empty span does nothing. Any thread.
template <typename T>
void prefetch(std::span<T> elements, const location& where, const stream& in) {
  if (elements.empty()) return;
  detail::check(detail::prefetch(detail::device_pointer(elements.data()), elements.size_bytes(),
                                 where.value(), in.handle()),
                "cuMemPrefetchAsync");
}

// Make all pages that the elements overlap accessible to the calling thread's processor, for a
// system call that follows: one that takes bytes from them, or, with `touch_for_writing`, one that
// puts bytes into them. See wherryTouchPages. An empty span does nothing. Any thread, and kernels.
template <typename T>
void touch_for_reading(std::span<T> elements) {
  if (elements.empty()) return;
  detail::check(wherryTouchPages(elements.data(), elements.size_bytes(), WHERRY_TOUCH_READ),
                "wherryTouchPages");
}
template <typename T>
void touch_for_writing(std::span<T> elements) {
  static_assert(!std::is_const_v<T>);
  if (elements.empty()) return;
  detail::check(wherryTouchPages(elements.data(), elements.size_bytes(), WHERRY_TOUCH_WRITE),
                "wherryTouchPages");
}

// Gives the elements' memory a name, which reports on a trace use, see wherryNameRange. An empty
// span does nothing. Any thread.
template <typename T>
void name_range(std::span<T> elements, const std::string& name) {
  if (elements.empty()) return;
  detail::check(wherryNameRange(elements.data(), elements.size_bytes(), name.c_str()),
                "wherryNameRange");
}

// For `attached`: the coherent device on whose node the thread runs at each moment.
struct by_cpu_t {};
inline constexpr by_cpu_t by_cpu{};

// Makes the calling thread count as a coherent device for one scope, see wherryThreadAttach and
// wherryThreadAttachByCpu. At the end of the scope the thread is attached as it was before, or not
// at all. Scopes may be nested. The thread that made the object must destroy it.
class attached {
 public:
  // Throws CUDA_ERROR_NOT_SUPPORTED if the device is not coherent.
  explicit attached(const device& to) {
    remember();
    detail::check(wherryThreadAttach(to.ordinal()), "wherryThreadAttach");
  }
  explicit attached(by_cpu_t) {
    remember();
    detail::check(wherryThreadAttachByCpu(), "wherryThreadAttachByCpu");
  }
  ~attached() {
    if (was_by_cpu_ != 0) {
      wherryThreadAttachByCpu();
    } else if (before_ != CU_DEVICE_CPU) {
      wherryThreadAttach(before_);
    } else {
      wherryThreadDetach();
    }
  }
  attached(const attached&) = delete;
  attached& operator=(const attached&) = delete;

 private:
  void remember() {
    detail::check(cuInit(0), "cuInit");
    detail::check(wherryThreadDevice(&before_, &was_by_cpu_), "wherryThreadDevice");
  }

  CUdevice before_ = CU_DEVICE_CPU;
  int was_by_cpu_ = 0;
};

// An adaptor: allocates from another resource, and sends the memory to `where` at once, in stream
// order, so that its first use does not fault there. (RMM's prefetch_resource_adaptor.) Any thread,
// if the other resource permits that.
class prefetching_resource final : public std::pmr::memory_resource {
 public:
  // `upstream` allocates managed memory. It and the stream must outlive this object.
  prefetching_resource(std::pmr::memory_resource& upstream, const location& where, const stream& in)
      : upstream_(upstream), where_(where), stream_(in) {}

 private:
  // Also throws what prefetch() throws; then nothing is allocated.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const pointer = upstream_.allocate(bytes, alignment);
    try {
      prefetch(std::span(static_cast<const std::byte*>(pointer), bytes), where_, stream_);
    } catch (...) {
      upstream_.deallocate(pointer, bytes, alignment);
      throw;
    }
    return pointer;
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    upstream_.deallocate(pointer, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const prefetching_resource*>(&other);
    return same != nullptr && upstream_.is_equal(same->upstream_);
  }

  std::pmr::memory_resource& upstream_;
  location where_;
  const stream& stream_;
};

}  // namespace wherry
