// A simulated device process: keeps posted launches until the test finishes them, and dies on
// demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "os/process/poll.h"
#include "streams/launch_target.h"

namespace wherry::test {

class FakeTarget final : public impl::LaunchTarget {
 public:
  explicit FakeTarget(std::size_t slots = 64) : slots_(slots) {}

  // A launch as the device sees it.
  struct Posted {
    std::uint64_t id = 0;
    std::uintptr_t kernel = 0;
    std::vector<std::byte> args;
    std::size_t items = 0;
  };

  // Called for every posted launch, under the engine's lock.
  void on_post(std::function<void(const Posted&)> observer) { observer_ = std::move(observer); }
  void know_no_kernels() { knows_kernels_ = false; }

  // The launches that run now, oldest first.
  std::vector<Posted> running() const {
    const std::lock_guard guard(lock_);
    return running_;
  }
  // Waits until `count` launches run. Returns false after ten seconds.
  bool wait_for_running(std::size_t count) const {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, std::chrono::seconds(10),
                             [&] { return running_.size() == count; });
  }
  std::size_t posted() const {
    const std::lock_guard guard(lock_);
    return posted_;
  }

  void finish(std::uint64_t id) {
    {
      const std::lock_guard guard(lock_);
      std::erase_if(running_, [id](const Posted& launch) { return launch.id == id; });
      finished_.push_back(id);
    }
    impl::signal_eventfd(completion_);
    changed_.notify_all();
  }
  void finish_oldest() { finish(running().at(0).id); }

  void die(const impl::DeviceFailure& failure) {
    {
      const std::lock_guard guard(lock_);
      failure_ = failure;
    }
    impl::signal_eventfd(exit_);
  }

  // Whether a thread has begun to wait for a completion. The engine's own thread does so, too, if
  // work depends on one.
  bool is_waited_for() const { return waited_for_; }

  int completion_fd() const override {
    waited_for_ = true;
    return completion_.get();
  }
  int exit_fd() const override { return exit_.get(); }
  pid_t pid() const override { return 4711; }
  std::optional<std::uintptr_t> resolve(impl::KernelFunction kernel) override {
    if (!knows_kernels_) return std::nullopt;
    return reinterpret_cast<std::uintptr_t>(kernel);
  }
  int load(impl::KernelFunction) override { return ENOEXEC; }
  bool has_credentials_of_caller() const override { return true; }
  bool try_post(const impl::LaunchRequest& request) override {
    const std::lock_guard guard(lock_);
    if (running_.size() + finished_.size() >= slots_) return false;
    const auto* bytes = static_cast<const std::byte*>(request.args);
    running_.push_back(
        {request.id, request.address, {bytes, bytes + request.args_size}, request.items});
    ++posted_;
    if (observer_) observer_(running_.back());
    changed_.notify_all();
    return true;
  }
  bool has_completed() const override {
    const std::lock_guard guard(lock_);
    return !finished_.empty();
  }
  std::vector<std::uint64_t> take_completed() override {
    const std::lock_guard guard(lock_);
    impl::drain_eventfd(completion_);
    return std::exchange(finished_, {});
  }
  impl::DeviceFailure failure() const override {
    const std::lock_guard guard(lock_);
    return failure_;
  }

 private:
  const std::size_t slots_;
  const impl::Fd completion_ = impl::make_eventfd();
  const impl::Fd exit_ = impl::make_eventfd();
  std::function<void(const Posted&)> observer_;
  bool knows_kernels_ = true;
  mutable std::atomic<bool> waited_for_ = false;

  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  std::vector<Posted> running_;
  std::vector<std::uint64_t> finished_;
  std::size_t posted_ = 0;
  impl::DeviceFailure failure_;
};

}  // namespace wherry::test
