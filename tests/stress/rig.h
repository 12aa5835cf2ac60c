// A runtime of its own, without the C API, whose every step can be delayed or failed; and kernels
// started directly in its device processes. One per process: the runtime is never destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/runtime.h"
#include "stress/injector.h"

namespace wherry::test {

class Rig {
 public:
  // devices: as in WHERRY_DEVICES. region_pages: how much a fault brings along. transfer_pages_min:
  // how much is carried without a lock; 1, so that the few pages of a match go the way of many.
  Rig(const std::string& devices, unsigned region_pages, unsigned transfer_pages_min);

  impl::Runtime& runtime() { return *runtime_; }
  Injector& injector() { return injector_; }

  // Zeroed managed memory. Throws std::runtime_error.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* memory);

  // Says it of all pages of this memory.
  void advise(const std::byte* memory, std::size_t bytes, const impl::AdviceChange& change);

  // Has it prefetched, unless two prefetches are under way already. Does not wait.
  void prefetch(const std::byte* memory, std::size_t bytes, impl::Location to);

  // Memory that all processes share and that nobody manages: the same every time, zeroed anew.
  // Requires: it fits.
  std::byte* zeroed_still_memory(std::size_t bytes);

  // Starts function(i) for every i below `items` on the device's workers. One at a time on a
  // device.
  template <typename Function>
  void launch(int device, std::size_t items, const Function& function) {
    static_assert(std::is_trivially_copyable_v<Function>);
    launched_[device] = post(device, call<Function>, &function, sizeof function, items);
  }
  // Waits for it. Throws std::runtime_error when the process dies, or after some minutes.
  void wait(int device) { wait_for(device, launched_[device]); }
  bool has_ended(int device) { return finished(device, launched_[device]); }
  // Starts function() beside the device's launch, unless the last one so started still runs.
  template <typename Function>
  void launch_beside(int device, const Function& function) {
    static_assert(std::is_trivially_copyable_v<Function>);
    if (!finished(device, beside_[device])) return;
    beside_[device] = post(device, call_once<Function>, &function, sizeof function, 1);
  }

  // Has it copied to memory of this process, unless that is under way already. Does not wait.
  void copy_out(const std::byte* memory, std::size_t bytes);

  // Pages that came to any pool so far, by populating, migration, eviction and as copies, or that
  // somebody came to see in another's pool.
  std::uint64_t pages_moved() const;

 private:
  template <typename Function>
  static void call(const void* args, std::size_t begin, std::size_t end) {
    const Function& function = *static_cast<const Function*>(args);
    for (std::size_t i = begin; i < end; ++i) function(i);
  }
  template <typename Function>
  static void call_once(const void* args, std::size_t, std::size_t) {
    (*static_cast<const Function*>(args))();
  }
  // Return and take launch ids, which count from 1; 0 is a launch that has finished.
  std::uint64_t post(int device, impl::KernelFunction kernel, const void* args, std::size_t size,
                     std::size_t items);
  bool finished(int device, std::uint64_t id);
  void wait_for(int device, std::uint64_t id);

  Injector injector_;
  std::byte* still_;        // mapped before the devices are forked
  impl::Runtime* runtime_;  // lives until the process ends
  std::uint64_t next_id_ = 1;
  std::atomic<int> prefetches_open_{0};
  std::atomic<bool> copies_{false};
  std::vector<std::byte> copied_;  // what copies_ writes to
  std::map<int, std::uint64_t> launched_, beside_;
  std::set<std::uint64_t> running_;
};

}  // namespace wherry::test
