// An engine with a simulated device, and work whose end the test decides.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "streams/device_engine.h"
#include "streams/fake_target.h"

namespace wherry::test {

inline void some_kernel(const void*, std::size_t, std::size_t) {}

// An engine with one device whose work ends only when the test says so.
struct Bench {
  explicit Bench(std::size_t slots = 64) : target(std::make_shared<FakeTarget>(slots)) {
    engine.attach(target);
    context = engine.create_context();
  }

  std::shared_ptr<impl::Stream> stream(impl::StreamKind kind = impl::StreamKind::non_blocking) {
    return engine.create_stream(context, kind);
  }
  // A launch that is identified by its number of items.
  impl::WorkStatus launch(const std::shared_ptr<impl::Stream>& on, std::size_t items) {
    return engine.launch(on, some_kernel, {}, items);
  }
  std::vector<std::size_t> running() const {
    std::vector<std::size_t> items;
    for (const auto& launch : target->running()) items.push_back(launch.items);
    return items;
  }
  std::uint64_t id_of(std::size_t items) const {
    for (const auto& launch : target->running()) {
      if (launch.items == items) return launch.id;
    }
    return 0;
  }
  void finish(std::size_t items) { target->finish(id_of(items)); }
  void take_completions(const std::shared_ptr<impl::Stream>& of) { engine.query(of); }

  impl::DeviceEngine engine{0};
  std::shared_ptr<FakeTarget> target;
  std::shared_ptr<impl::WorkContext> context;
};

using Sizes = std::vector<std::size_t>;

// A host function that signals that it runs, and waits for permission to return.
struct Gate {
  std::promise<void> entered;
  std::promise<void> leave;
  std::atomic<bool> ran = false;

  static void pass(void* data) {
    auto* gate = static_cast<Gate*>(data);
    gate->ran = true;
    gate->entered.set_value();
    gate->leave.get_future().wait_for(std::chrono::seconds(10));
  }
};

inline void set_flag(void* data) {
  *static_cast<std::atomic<bool>*>(data) = true;
}

inline bool comes_true(const std::atomic<bool>& flag) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!flag && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return flag;
}

// An operation that ends when the test says so.
struct OperationRecord {
  std::atomic<bool> begun = false;
  impl::Completion done;

  impl::Operation operation() {
    return [this](impl::Completion when_done) {
      done = std::move(when_done);
      begun = true;
    };
  }
};

inline impl::DeviceFailure failure_of(impl::DeviceFailure::Kind kind, std::uint64_t launch_id) {
  impl::DeviceFailure failure;
  failure.kind = kind;
  failure.launch_id = launch_id;
  failure.address = 0xdead000;
  return failure;
}

}  // namespace wherry::test
