// A runtime of its own, without the C API, in which every step can be delayed or failed, and
// kernels that are started directly in its device processes, or on the threads of its coherent
// devices. One per process: the runtime is never destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/runtime.h"
#include "streams/launch_target.h"
#include "stress/injector.h"

namespace wherry::test {

class Rig {
 public:
  // devices: as in WHERRY_DEVICES. region_pages: how many pages a fault brings. transfer_pages_min:
  // from how many pages on a transfer copies without holding the block's lock; 1 makes even the few
  // pages of a match use transfers. The rig lives until the process ends, because the threads of
  // its runtime use its injector, and prefetches in progress use its counters.
  static Rig& start(const std::string& devices, unsigned region_pages,
                    unsigned transfer_pages_min) {
    return *new Rig(devices, region_pages, transfer_pages_min);
  }
  ~Rig() = delete;
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  impl::Runtime& runtime() { return *runtime_; }
  Injector& injector() { return injector_; }

  // Zeroed managed memory. Throws std::runtime_error.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* memory);

  // Gives the advice on all pages of this memory.
  void advise(const std::byte* memory, std::size_t bytes, const impl::AdviceChange& change);

  // Prefetches the memory, unless two prefetches are in progress already. Does not wait.
  void prefetch(const std::byte* memory, std::size_t bytes, impl::Location to);

  // Discards the pages' contents. Does not wait, and counts as a prefetch.
  void discard(const std::byte* memory, std::size_t bytes);

  // Waits for the prefetches in progress. Throws std::runtime_error after some minutes.
  void wait_for_prefetches() const;
  impl::BlockIndex block_of(const std::byte* memory) const;

  // Removes entries of the host's page table, of the page at `memory` or of its whole block, so
  // that an access shows who uses it. Requires a coherent device.
  void sample(const std::byte* memory);

  // Zeroes and returns memory that all processes share and that is not managed. It is the same
  // memory on every call. Requires: `bytes` fit.
  std::byte* zeroed_still_memory(std::size_t bytes);

  // Starts function(i) for every i below `items` on the device's workers. One launch at a time on a
  // device.
  template <typename Function>
  void launch(int device, std::size_t items, const Function& function) {
    static_assert(std::is_trivially_copyable_v<Function>);
    launched_[device] = post(device, call<Function>, &function, sizeof function, items);
  }
  // Waits for the launch. Throws std::runtime_error when the device process dies, or after some
  // minutes.
  void wait(int device) { wait_for(device, launched_[device]); }
  bool has_ended(int device) { return finished(device, launched_[device]); }
  // Starts function() beside the device's launch, unless the previous such function still runs.
  // Returns whether it was started.
  template <typename Function>
  bool launch_beside(int device, const Function& function) {
    static_assert(std::is_trivially_copyable_v<Function>);
    if (!finished(device, beside_[device])) return false;
    beside_[device] = post(device, call_once<Function>, &function, sizeof function, 1);
    return true;
  }
  // Waits for that function, as wait() does.
  void wait_beside(int device) { wait_for(device, beside_[device]); }

  // Copies the memory to memory of this process, unless such a copy is in progress already. Does
  // not wait.
  void copy_out(const std::byte* memory, std::size_t bytes);

  // How many pages came to a pool so far, by populating, migration, eviction or duplication, or
  // were mapped remotely.
  std::uint64_t pages_moved() const;

 private:
  Rig(const std::string& devices, unsigned region_pages, unsigned transfer_pages_min);

  void request(const std::byte* memory, std::size_t bytes, impl::Location to,
               impl::PrefetchRequest::Kind kind);
  template <typename Function>
  static void call(const void* args, std::size_t begin, std::size_t end) {
    const Function& function = *static_cast<const Function*>(args);
    for (std::size_t i = begin; i < end; ++i) function(i);
  }
  template <typename Function>
  static void call_once(const void* args, std::size_t, std::size_t) {
    (*static_cast<const Function*>(args))();
  }
  // What runs the device's kernels now.
  std::shared_ptr<impl::LaunchTarget> target(int device) const;
  // Launch ids count from 1; 0 stands for a launch that has finished.
  std::uint64_t post(int device, impl::KernelFunction kernel, const void* args, std::size_t size,
                     std::size_t items);
  bool finished(int device, std::uint64_t id);
  void wait_for(int device, std::uint64_t id);

  Injector injector_;
  std::byte* still_;  // mapped before the device processes are forked
  impl::Runtime* runtime_;
  std::map<int, std::shared_ptr<impl::LaunchTarget>> threads_;  // of the coherent devices
  std::uint64_t next_id_ = 1;
  std::atomic<int> prefetches_open_{0};
  std::atomic<bool> copies_{false};
  std::vector<std::byte> copied_;  // the destination of copy_out()
  std::map<int, std::uint64_t> launched_, beside_;
  std::set<std::uint64_t> running_;
};

}  // namespace wherry::test
