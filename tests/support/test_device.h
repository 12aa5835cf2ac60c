// A device process without the engine: its pool is a plain file that Linux fills where it is
// accessible, and all faults are refused. For tests of the process alone. It traps in the same way
// as the library on this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>

#include "devices/annex.h"
#include "devices/device_process.h"
#include "os/files/memory_file.h"
#include "os/memory/mapping.h"
#include "trap/fault_source.h"

namespace wherry::test {

// An arena of this process, with one pool that all devices of the test share.
class TestArena {
 public:
  static constexpr std::size_t bytes = std::size_t{1} << 30;

  TestArena();

  std::uintptr_t base() const { return range_.address(); }
  const impl::ArenaLayout& layout() const { return layout_; }
  int pool_fd() const { return pool_.fd(); }
  // Zeroed memory that the device also maps, at the same address; never freed.
  template <typename T>
  T* take(std::size_t count) {
    void* place = range_.data() + used_;
    used_ += (count * sizeof(T) + 4095) / 4096 * 4096;
    return static_cast<T*>(place);
  }

 private:
  impl::Mapping range_;
  impl::MemoryFile pool_;
  const impl::ArenaLayout layout_{base(), bytes, 0};
  std::size_t used_ = 0;
};

// The kernel's address in the device, which loads the kernel's module first if it does not have it.
// Returns nullopt if the device cannot load the module.
std::optional<std::uintptr_t> resolve_kernel(impl::DeviceProcess& process,
                                             impl::KernelFunction kernel);

class TestDevice {
 public:
  static constexpr std::size_t open_bytes = std::size_t{64} << 20;
  static constexpr impl::PageSpan twice_open{{0}, 2 * open_bytes / impl::page_size};

  explicit TestDevice(
      const TestArena& arena, int ordinal = 0, int workers = 2, const impl::Annex* annex = nullptr,
      std::uint64_t command_limit_ns = impl::DeviceProcessOptions().command_limit_ns);

  impl::DeviceProcess& process() { return *process_; }
  std::shared_ptr<impl::DeviceProcess> shared_process() { return process_; }
  pid_t pid() const { return process_->pid(); }

  // Posts a launch, after waiting for a free slot if necessary. Returns the launch's id.
  std::uint64_t post(impl::KernelFunction kernel, const void* args, std::size_t args_size,
                     std::size_t items);
  // Waits until the launch has finished or the device has ended; returns the failure in the latter
  // case. Throws after 20 s.
  std::optional<impl::DeviceFailure> wait(std::uint64_t id);
  // Waits until the device has ended. Throws after 20 s.
  impl::DeviceFailure wait_for_end();

  // Calls function(index) for every index below `items` and waits.
  template <typename Function>
  std::optional<impl::DeviceFailure> run(std::size_t items, const Function& function) {
    static_assert(std::is_trivially_copyable_v<Function>);
    return wait(post(call<Function>, &function, sizeof function, items));
  }
  // Calls function() once and waits.
  template <typename Function>
  std::optional<impl::DeviceFailure> run_once(const Function& function) {
    return run(1, [function](std::size_t) { function(); });
  }

 private:
  template <typename Function>
  static void call(const void* args, std::size_t begin, std::size_t end) {
    const Function& function = *static_cast<const Function*>(args);
    for (std::size_t i = begin; i < end; ++i) function(i);
  }

  // Waits until the device has finished a launch, ended, or faulted, and refuses its faults.
  // Returns whether the device has ended.
  bool wait_for_news(int limit_ms);

  std::shared_ptr<impl::DeviceProcess> process_;
  std::unique_ptr<const impl::FaultSource> faults_;  // null: Linux answers the faults
  std::uint64_t last_id_ = 0;
  std::vector<std::uint64_t> completed_;
};

}  // namespace wherry::test
