// A few threads, each with a carrier of its own, that take one step of a job after the other: what
// prefetches and copies have in common.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/lock.h"
#include "memory/copy_backend.h"
#include "os/process/condition.h"

namespace wherry::impl {

class Copiers {
 public:
  enum class Progress {
    flies,  // there is something to carry
    moves,  // something has been done: look again
    waits,  // look again in a moment
    done,
  };
  using Load = std::variant<PageTransfer, ByteTransfer>;
  class Job;

  // One step of a job, in the hands of one copier at a time.
  class Step {
   public:
    virtual ~Step() = default;
    // Begins what comes next. flies: `load` is to be carried.
    virtual Progress advance(Load& load) = 0;
    // The load has arrived, or failed.
    virtual void complete_transfer(const TransferResult& outcome) = 0;
    // The load stays where it is: this copier cannot carry anything.
    virtual void stay() = 0;

   private:
    friend class Copiers;
    std::shared_ptr<Job> job_;
    std::uint64_t due_ns_ = 0;  // when to look again
  };

  // Called under the copiers' lock, one call at a time, unless it says otherwise.
  class Job {
   public:
    virtual ~Job() = default;
    // Null: none, or none before others of this job are done.
    virtual std::unique_ptr<Step> next() = 0;
    virtual bool has_more() const = 0;
    virtual void finish(Step& step) = 0;
    // All steps are done. Once, without the lock.
    virtual void done() = 0;

   private:
    friend class Copiers;
    unsigned open_steps_ = 0;  // that were taken and are not done
  };

  // Called once by each copier's thread, which is the only one to use what it returns.
  using MakeBackend = std::function<std::unique_ptr<CopyBackend>(unsigned copier)>;
  struct Limits {
    // The first one works whenever there is something to do, the others while a CPU has nothing
    // else to run.
    unsigned copiers = 1;
    std::vector<int> cpus = {};  // they run on these, near to the host's memory; empty: on any
  };
  Copiers(MakeBackend make_copy_backend, Limits limits);
  // Lands what is in flight; the rest of the jobs is dropped.
  ~Copiers();
  // No copying begins before. Once.
  void start();

  // Returns at once. Any lock may be held.
  void submit(std::shared_ptr<Job> job);

 private:
  void work(unsigned copier);
  // A step whose time has come; null: none has, or the CPU is wanted elsewhere. Waits for one if
  // `wait`.
  std::unique_ptr<Step> take(unsigned copier, bool wait) EXCLUDES(lock_);
  // Whether the program leaves a CPU to this copier.
  bool may_work(unsigned copier);
  std::unique_ptr<Step> next_step() REQUIRES(lock_);
  void put_back(std::unique_ptr<Step> step);
  void finish(std::unique_ptr<Step> step);

  const MakeBackend make_backend_;
  const Limits limits_;
  const unsigned cpus_;
  // Threads that copying keeps busy: copiers that are awake, and kernel threads that copy.
  std::atomic<unsigned> busy_threads_{0};
  std::atomic<unsigned> others_average_{0};  // threads of others that want a CPU

  Mutex lock_{LockOrder::copiers};
  Condition work_;     // for the first copier: there is something to do
  Condition surplus_;  // for the others: there is more than that one does at once
  // The next step is the first one's, which then becomes the last.
  std::list<std::shared_ptr<Job>> jobs_ GUARDED_BY(lock_);
  std::deque<std::unique_ptr<Step>> put_back_ GUARDED_BY(lock_);
  bool stopping_ GUARDED_BY(lock_) = false;
  std::vector<std::thread> copiers_;
};

}  // namespace wherry::impl
