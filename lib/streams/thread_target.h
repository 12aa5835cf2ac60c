// The workers of one coherent device: threads of this process that run the device's kernels.
//
// They take pieces of launches as the workers of a device process do (devices/launch_board.h), so
// both kinds of devices schedule alike. Kernels run in the program itself:
// - They see every pointer, lock and variable of the program. Thread-local variables are those of
//   the worker.
// - The program ends with a kernel's failure: an exception that leaves a kernel, and
//   pthread_exit(), call std::terminate(); a crash is the program's own.
// - Workers block all signals but SIGSEGV and SIGBUS, like the thread of host functions.
// - A worker is attached to its device (trap/attached_threads.h). Threads that a kernel creates,
//   for example OpenMP's, inherit its CPUs and its blocked signals, but are not attached: their
//   accesses count as the host's.
// - A worker holds no lock of the library while it runs a kernel.
//
// A program may end while workers run kernels: then the target is never destroyed, and no thread
// waits for the workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "devices/launch_board.h"
#include "devices/worker.h"
#include "os/files/fd.h"
#include "streams/launch_target.h"
#include "trap/attached_threads.h"

namespace wherry::impl {

class ThreadTarget final : public LaunchTarget {
 public:
  // Starts the workers, and returns when all run. `attached` outlives this. Throws
  // std::system_error, for example if no more threads can be attached.
  ThreadTarget(AttachedThreads& attached, const WorkerOptions& options);
  // Waits until the kernels that run now have returned, however long that takes: threads of the
  // program cannot be ended from outside. Launches, and pieces of launches, that have not begun do
  // not run. Call without locks, and not in a kernel.
  ~ThreadTarget() override;

  int completion_fd() const override { return completion_.get(); }
  int exit_fd() const override { return never_.get(); }  // never readable
  pid_t pid() const override;                            // this process

  std::optional<std::uintptr_t> resolve(KernelFunction kernel) override {
    return reinterpret_cast<std::uintptr_t>(kernel);
  }
  // All code of the program is loaded.
  int load(KernelFunction) override { return 0; }
  // setuid() and its kind change all threads of the process.
  bool has_credentials_of_caller() const override { return true; }
  bool try_post(const LaunchRequest& request) override;
  bool has_completed() const override { return poster_.has_completed(); }
  std::vector<std::uint64_t> take_completed() override;
  // Not called, because exit_fd() is never readable.
  DeviceFailure failure() const override;

 private:
  void start(const WorkerOptions& options);
  void stop();
  void run(unsigned worker);

  const std::unique_ptr<LaunchBoard> board_ = std::make_unique<LaunchBoard>();
  AttachedThreads& attached_;
  LaunchPoster poster_;
  const Fd completion_;  // eventfd
  const Fd never_;       // eventfd
  std::atomic<bool> stopping_{false};
  std::latch starting_;        // workers that do not run yet
  std::atomic<int> error_{0};  // why a worker could not start
  std::vector<std::thread> workers_;
};

}  // namespace wherry::impl
