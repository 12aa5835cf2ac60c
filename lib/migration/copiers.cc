#include "migration/copiers.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "os/process/load.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// How long a task that waits is left alone.
constexpr std::uint64_t retry_ns = 100'000;
// A copier with a transfer in flight does so many steps of other tasks before it waits for the
// transfer's end. If such a task has to wait, the copier waits for the end at once: perhaps the
// task needs the pages of this very transfer.
constexpr unsigned steps_max = 8;
// The average number of other runnable threads, in fixed point: a new sample has the weight 1 /
// average_weight, and one_thread stands for one thread.
constexpr unsigned average_weight = 4;
constexpr unsigned one_thread = 256;
constexpr auto idle_check = std::chrono::milliseconds(1);

// Adds one to the counter for the object's lifetime.
class Counted {
 public:
  explicit Counted(std::atomic<unsigned>& counter) : counter_(counter) { ++counter_; }
  ~Counted() { --counter_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<unsigned>& counter_;
};

}  // namespace

Copiers::Copiers(MakeBackend make_copy_backend, Limits limits)
    : make_backend_(std::move(make_copy_backend)),
      limits_(std::move(limits)),
      cpus_(std::max(1u, std::thread::hardware_concurrency())) {}

void Copiers::start() {
  const SignalBlock no_signals;
  for (unsigned i = 0; i < limits_.copiers; ++i) copiers_.emplace_back([this, i] { work(i); });
}

Copiers::~Copiers() {
  {
    const LockGuard guard(lock_);
    stopping_ = true;
  }
  work_.notify_all();
  surplus_.notify_all();
  for (std::thread& copier : copiers_) copier.join();
}

void Copiers::submit(std::shared_ptr<Job> job) {
  {
    const LockGuard guard(lock_);
    jobs_.push_back(std::move(job));
  }
  // The first copier wakes the others: waking several threads takes longer than the program should
  // wait.
  work_.notify_one();
  if (busy_threads_.load(std::memory_order_relaxed) != 0) surplus_.notify_one();
}

unsigned Copiers::other_threads() const {
  const unsigned runnable = runnable_threads();
  return runnable - std::min(runnable, busy_threads_.load(std::memory_order_relaxed));
}

std::unique_ptr<Copiers::Task> Copiers::next_task() {
  const std::uint64_t now = now_ns();
  const auto due =
      std::ranges::find_if(waiting_, [now](const auto& task) { return task->due_ns_ <= now; });
  if (due != waiting_.end()) {
    auto task = std::move(*due);
    waiting_.erase(due);
    return task;
  }
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    auto task = (*job)->next_task();
    if (!task) continue;
    task->job_ = *job;
    ++(*job)->open_tasks_;
    jobs_.splice(jobs_.end(), jobs_, job);  // the next turn is another job's
    return task;
  }
  return nullptr;
}

bool Copiers::may_work(unsigned copier) {
  if (copier == 0) return true;
  const unsigned runnable = runnable_threads();
  const unsigned ours = busy_threads_.load(std::memory_order_relaxed) + 1;  // with this one
  const unsigned others = runnable > ours ? runnable - ours : 0;
  // A single sample may count a thread that is about to sleep.
  const unsigned before = others_average_.load(std::memory_order_relaxed);
  const unsigned average = before - before / average_weight + others * one_thread / average_weight;
  others_average_.store(average, std::memory_order_relaxed);
  return average + copier * one_thread < cpus_ * one_thread - one_thread / 4;
}

std::unique_ptr<Copiers::Task> Copiers::take(unsigned copier, bool wait) {
  const bool may = may_work(copier);
  std::shared_ptr<Job> over;
  {
    const LockGuard guard(lock_);
    const auto sleep = [&](std::optional<std::chrono::nanoseconds> limit) REQUIRES(lock_) {
      if (!wait) return;
      Condition& changed = copier == 0 ? work_ : surplus_;
      if (limit)
        changed.wait_for(lock_, *limit);
      else
        changed.wait(lock_);
    };
    if (stopping_) return nullptr;
    if (jobs_.empty()) {
      sleep({});
      return nullptr;
    }
    if (!may) {
      sleep(idle_check);
      return nullptr;
    }
    if (auto task = next_task()) {
      if (copier == 0 && task->job_->has_more()) surplus_.notify_all();
      return task;
    }
    // A job without open tasks that gives no further one is done.
    const auto empty =
        std::ranges::find_if(jobs_, [](const auto& job) { return job->open_tasks_ == 0; });
    if (empty == jobs_.end()) {
      sleep(waiting_.empty() ? idle_check : std::chrono::nanoseconds(retry_ns));
      return nullptr;
    }
    over = std::move(*empty);
    jobs_.erase(empty);
  }
  over->done();
  return nullptr;
}

void Copiers::put_back(std::unique_ptr<Task> task) {
  task->due_ns_ = now_ns() + retry_ns;
  const LockGuard guard(lock_);
  waiting_.push_back(std::move(task));
}

void Copiers::finish(std::unique_ptr<Task> task) {
  const auto job = task->job_;
  {
    const LockGuard guard(lock_);
    job->finish(*task);
    if (--job->open_tasks_ != 0 || job->has_more()) return;
    jobs_.remove(job);
  }
  job->done();
}

void Copiers::work(unsigned copier) {
  name_this_thread("wherry-copy" + std::to_string(copier));
  thread_gets_no_signals();
  if (!limits_.cpus.empty()) pin_this_thread(limits_.cpus);
  std::unique_ptr<CopyBackend> backend;                // made for the first transfer
  std::vector<std::unique_ptr<Task>> transferring(1);  // by the backend's slots
  std::unique_ptr<Task> current;
  unsigned transfers = 0;  // in flight
  unsigned steps = 0;      // since a transfer began or was completed
  for (;;) {
    const bool must_complete = transfers != 0 && steps >= steps_max;
    if (!current && !must_complete) current = take(copier, /*wait=*/transfers == 0);
    auto slot = std::find(transferring.begin(), transferring.end(), nullptr);
    if (current && !must_complete && slot != transferring.end()) {
      const Counted awake(busy_threads_);
      AnyTransfer transfer;
      ++steps;
      switch (current->advance(transfer)) {
        case TaskState::runnable:
          break;
        case TaskState::transfers:
          if (!backend) {
            backend = try_to_make([&] { return make_backend_(copier); });
            if (!backend) {
              current->cancel_transfer();
              break;
            }
            transferring.resize(backend->slots());
            slot = transferring.begin();
          }
          std::visit(
              [&](const auto& what) {
                backend->begin(static_cast<unsigned>(slot - transferring.begin()), what);
              },
              transfer);
          *slot = std::move(current);
          if (transfers++ == 0) ++busy_threads_;
          steps = 0;
          break;
        case TaskState::waits:
          put_back(std::move(current));
          steps = steps_max;
          break;
        case TaskState::done:
          finish(std::move(current));
          break;
      }
      continue;
    }
    if (transfers == 0) {
      const LockGuard guard(lock_);
      if (stopping_) return;
      continue;
    }
    const TransferResult outcome = backend->next();
    const Counted awake(busy_threads_);
    auto& completed = transferring[outcome.slot];
    completed->complete_transfer(outcome);
    steps = 0;
    // The rest of the task is best done at once.
    if (!current)
      current = std::move(completed);
    else
      put_back(std::move(completed));
    completed.reset();
    if (--transfers == 0) --busy_threads_;
  }
}

}  // namespace wherry::impl
