// The interface of a device to its engine: a DeviceProcess, the threads of a coherent device
// (streams/thread_target.h), or a fake in tests. The engine calls it under its own lock, one call
// at a time, except for load(). No call waits for a launch.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devices/device_process.h"

namespace wherry::impl {

class LaunchTarget {
 public:
  virtual ~LaunchTarget() = default;

  virtual int completion_fd() const = 0;  // readable when launches have finished
  virtual int exit_fd() const = 0;        // readable once the process has ended
  virtual pid_t pid() const = 0;          // of the process that runs the kernels

  // The kernel's address in the device. Returns nullopt if the device must load its module first.
  virtual std::optional<std::uintptr_t> resolve(KernelFunction kernel) = 0;
  // Loads the kernel's module in the device and waits for its constructors. Any thread may call,
  // without locks. Returns 0 or an errno (ENOEXEC: the device cannot load it).
  [[nodiscard]] virtual int load(KernelFunction kernel) = 0;
  // Whether kernels run with the credentials of the calling thread.
  virtual bool has_credentials_of_caller() const = 0;
  // Returns false if the device can take no more launches before one has finished.
  [[nodiscard]] virtual bool try_post(const LaunchRequest& request) = 0;
  // Whether take_completed() would return some. Only reads memory, and may be true before
  // completion_fd() is readable. Any thread may call.
  virtual bool has_completed() const = 0;
  // Ids of the launches that have finished since the last call. Makes completion_fd() unreadable.
  virtual std::vector<std::uint64_t> take_completed() = 0;
  // Why the process ended. Requires: exit_fd() is readable.
  virtual DeviceFailure failure() const = 0;
};

// A device process as a launch target.
class ProcessTarget final : public LaunchTarget {
 public:
  explicit ProcessTarget(std::shared_ptr<DeviceProcess> process) : process_(std::move(process)) {}

  int completion_fd() const override { return process_->completion_fd(); }
  int exit_fd() const override { return process_->pidfd(); }
  pid_t pid() const override { return process_->pid(); }
  std::optional<std::uintptr_t> resolve(KernelFunction kernel) override {
    return process_->find_kernel(kernel);
  }
  int load(KernelFunction kernel) override {
    const int error = process_->load_module_of(kernel);
    if (error == ETIMEDOUT) process_->give_up();
    return error;
  }
  bool has_credentials_of_caller() const override { return process_->has_credentials_of_caller(); }
  bool try_post(const LaunchRequest& request) override { return process_->try_post(request); }
  bool has_completed() const override { return process_->has_completed(); }
  std::vector<std::uint64_t> take_completed() override { return process_->take_completed(); }
  DeviceFailure failure() const override { return process_->failure(); }

 private:
  std::shared_ptr<DeviceProcess> process_;
};

}  // namespace wherry::impl
