#include "migration/copiers.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "os/process/load.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t moment_ns = 100'000;
// How much of the average of other runnable threads one look makes up, and what one thread counts
// there.
constexpr unsigned average_weight = 4;
constexpr unsigned one_thread = 256;
constexpr auto idle_check = std::chrono::milliseconds(1);

// Counts while it lives.
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
  // The first copier calls the others: to wake several threads takes longer than the program should
  // wait.
  work_.notify_one();
}

std::unique_ptr<Copiers::Step> Copiers::next_step() {
  const std::uint64_t now = now_ns();
  const auto due =
      std::ranges::find_if(put_back_, [now](const auto& step) { return step->due_ns_ <= now; });
  if (due != put_back_.end()) {
    auto step = std::move(*due);
    put_back_.erase(due);
    return step;
  }
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    auto step = (*job)->next();
    if (!step) continue;
    step->job_ = *job;
    ++(*job)->open_steps_;
    jobs_.splice(jobs_.end(), jobs_, job);  // the others' turn
    return step;
  }
  return nullptr;
}

bool Copiers::may_work(unsigned copier) {
  if (copier == 0) return true;
  const unsigned runnable = runnable_threads();
  const unsigned ours = busy_threads_.load(std::memory_order_relaxed) + 1;  // with this one
  const unsigned others = runnable > ours ? runnable - ours : 0;
  // What is counted at one moment may be a thread that is about to sleep.
  const unsigned before = others_average_.load(std::memory_order_relaxed);
  const unsigned average = before - before / average_weight + others * one_thread / average_weight;
  others_average_.store(average, std::memory_order_relaxed);
  return average + copier * one_thread < cpus_ * one_thread - one_thread / 4;
}

std::unique_ptr<Copiers::Step> Copiers::take(unsigned copier, bool wait) {
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
    if (auto step = next_step()) {
      if (copier == 0 && step->job_->has_more()) surplus_.notify_all();
      return step;
    }
    // A job without steps is done as soon as somebody looks.
    const auto empty =
        std::ranges::find_if(jobs_, [](const auto& job) { return job->open_steps_ == 0; });
    if (empty == jobs_.end()) {
      sleep(put_back_.empty() ? idle_check : std::chrono::nanoseconds(moment_ns));
      return nullptr;
    }
    over = std::move(*empty);
    jobs_.erase(empty);
  }
  over->done();
  return nullptr;
}

void Copiers::put_back(std::unique_ptr<Step> step) {
  step->due_ns_ = now_ns() + moment_ns;
  const LockGuard guard(lock_);
  put_back_.push_back(std::move(step));
}

void Copiers::finish(std::unique_ptr<Step> step) {
  const auto job = step->job_;
  {
    const LockGuard guard(lock_);
    job->finish(*step);
    if (--job->open_steps_ != 0 || job->has_more()) return;
    jobs_.remove(job);
  }
  job->done();
}

void Copiers::work(unsigned copier) {
  name_this_thread("wherry-copy" + std::to_string(copier));
  thread_gets_no_signals();
  if (!limits_.cpus.empty()) pin_this_thread(limits_.cpus);
  std::unique_ptr<CopyBackend> backend;         // made for the first load
  std::vector<std::unique_ptr<Step>> flown(1);  // by slot
  std::unique_ptr<Step> current;
  unsigned flying = 0;
  for (;;) {
    if (!current) current = take(copier, /*wait=*/flying == 0);
    auto slot = std::find(flown.begin(), flown.end(), nullptr);
    if (current && slot != flown.end()) {
      const Counted awake(busy_threads_);
      Load load;
      switch (current->advance(load)) {
        case Progress::moves:
          break;
        case Progress::flies:
          if (!backend) {
            backend = try_to_make([&] { return make_backend_(copier); });
            if (!backend) {
              current->stay();
              break;
            }
            flown.resize(backend->slots());
            slot = flown.begin();
          }
          std::visit(
              [&](const auto& what) {
                backend->begin(static_cast<unsigned>(slot - flown.begin()), what);
              },
              load);
          *slot = std::move(current);
          if (flying++ == 0) ++busy_threads_;
          break;
        case Progress::waits:
          put_back(std::move(current));
          break;
        case Progress::done:
          finish(std::move(current));
          break;
      }
      continue;
    }
    if (flying == 0) {
      const LockGuard guard(lock_);
      if (stopping_) return;
      continue;
    }
    const TransferResult outcome = backend->next();
    const Counted awake(busy_threads_);
    auto& completed = flown[outcome.slot];
    completed->complete_transfer(outcome);
    // What is left to do of it is best done at once.
    if (!current)
      current = std::move(completed);
    else
      put_back(std::move(completed));
    completed.reset();
    if (--flying == 0) --busy_threads_;
  }
}

}  // namespace wherry::impl
