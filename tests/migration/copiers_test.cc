// The order in which a copier works on tasks and completes transfers.
#include "migration/copiers.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/waiting.h"

namespace wherry::test::copiers_test {
namespace {

using namespace wherry::impl;
using namespace std::chrono_literals;
using State = Copiers::TaskState;

// Completes every transfer at once.
class IdleBackend final : public CopyBackend {
 public:
  unsigned slots() const override { return 2; }
  void begin(unsigned slot, const PageTransfer& /*transfer*/) override { begun_.push_back(slot); }
  void begin(unsigned slot, const ByteTransfer& /*transfer*/) override { begun_.push_back(slot); }
  TransferResult next() override {
    const unsigned slot = begun_.front();
    begun_.erase(begun_.begin());
    return {slot, OpStatus::ok, false};
  }

 private:
  std::vector<unsigned> begun_;
};

struct Progress {
  std::atomic<bool> begun = false;
  std::atomic<bool> completed = false;
  std::atomic<int> steps_between = 0;  // of other tasks, between begin and completion
  std::atomic<bool> done = false;
};

class TransferringTask final : public Copiers::Task {
 public:
  explicit TransferringTask(Progress& progress) : progress_(progress) {}
  State advance(Copiers::AnyTransfer& transfer) override {
    if (progress_.completed) return State::done;
    transfer = PageTransfer{.span = {{0}, 1}};
    progress_.begun = true;
    return State::transfers;
  }
  void complete_transfer(const TransferResult& /*outcome*/) override { progress_.completed = true; }
  void cancel_transfer() override {}

 private:
  Progress& progress_;
};

// Does steps without transfers until the first task's transfer has completed, or until it has done
// far too many.
class OtherTask final : public Copiers::Task {
 public:
  OtherTask(Progress& progress, State state) : progress_(progress), state_(state) {}
  State advance(Copiers::AnyTransfer& /*transfer*/) override {
    // Longer than a copier waits before it asks a waiting task again.
    std::this_thread::sleep_for(200us);
    if (progress_.completed) return State::done;
    if (!progress_.begun) return State::waits;
    return ++progress_.steps_between >= steps_limit ? State::done : state_;
  }
  void complete_transfer(const TransferResult& /*outcome*/) override {}
  void cancel_transfer() override {}

  static constexpr int steps_limit = 1000;

 private:
  Progress& progress_;
  const State state_;
};

class Tasks final : public Copiers::Job {
 public:
  Tasks(Progress& progress, State others) : progress_(progress) {
    for (int i = 0; i < 3; ++i) left_.push_back(std::make_unique<OtherTask>(progress, others));
    left_.push_back(std::make_unique<TransferringTask>(progress));
  }
  std::unique_ptr<Copiers::Task> next_task() override {
    if (left_.empty()) return nullptr;
    auto task = std::move(left_.back());
    left_.pop_back();
    return task;
  }
  bool has_more() const override { return !left_.empty(); }
  void finish(Copiers::Task& /*task*/) override {}
  void done() override { progress_.done = true; }

 private:
  Progress& progress_;
  std::vector<std::unique_ptr<Copiers::Task>> left_;
};

int steps_before_completion(State others) {
  Progress progress;
  Copiers copiers([](unsigned) { return std::make_unique<IdleBackend>(); }, Copiers::Limits{1});
  copiers.start();
  copiers.submit(std::make_shared<Tasks>(progress, others));
  REQUIRE(comes_true([&] { return progress.done.load(); }));
  return progress.steps_between;
}

}  // namespace

TEST_CASE("a copier completes its transfer although other tasks always wait", "[migration]") {
  CHECK(steps_before_completion(State::waits) == 1);
}

TEST_CASE("a copier completes its transfer although other tasks can always go on", "[migration]") {
  CHECK(steps_before_completion(State::runnable) < 20);
}

}  // namespace wherry::test::copiers_test
