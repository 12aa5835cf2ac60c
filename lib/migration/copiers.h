// Threads that prefetch and copy in the background. Each takes one task of a job after the other
// and has a copy backend of its own, which carries out the tasks' transfers.
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
  // What a task needs after a call of advance().
  enum class TaskState {
    transfers,  // its transfer must be carried out
    runnable,   // call advance() again at once
    waits,      // call advance() again later
    done,
  };
  using AnyTransfer = std::variant<PageTransfer, ByteTransfer>;
  class Job;

  // A part of a job. One copier at a time works on it.
  class Task {
   public:
    virtual ~Task() = default;
    // Begins the next operation of the task. TaskState::transfers: `transfer` says what the copy
    // backend must do.
    virtual TaskState advance(AnyTransfer& transfer) = 0;
    // The transfer has completed or failed.
    virtual void complete_transfer(const TransferResult& outcome) = 0;
    // The transfer does not begin, because the copier cannot get a copy backend.
    virtual void cancel_transfer() = 0;

   private:
    friend class Copiers;
    std::shared_ptr<Job> job_;
    std::uint64_t due_ns_ = 0;  // while it waits: when to call advance() again
  };

  // Calls are made under the copiers' lock, one at a time, except where a comment says otherwise.
  class Job {
   public:
    virtual ~Job() = default;
    // Returns null if there is no further task, or none before another task of this job is done.
    virtual std::unique_ptr<Task> next_task() = 0;
    virtual bool has_more() const = 0;
    virtual void finish(Task& task) = 0;
    // All tasks are done. Called once, without the lock.
    virtual void done() = 0;

   private:
    friend class Copiers;
    unsigned open_tasks_ = 0;  // taken by copiers and not done
  };

  // Called once by each copier's thread, which alone uses the returned backend.
  using MakeBackend = std::function<std::unique_ptr<CopyBackend>(unsigned copier)>;
  struct Limits {
    // The first copier works whenever there is work, the others while a CPU would be idle.
    unsigned copiers = 1;
    std::vector<int> cpus = {};  // CPUs near the host's memory that they run on; empty: any CPU
  };
  Copiers(MakeBackend make_copy_backend, Limits limits);
  // Completes the transfers in flight and drops the rest of the jobs.
  ~Copiers();
  // Starts the threads. Call it once.
  void start();

  // Returns at once. The caller may hold any lock.
  void submit(std::shared_ptr<Job> job);
  // How many threads run or wait for a CPU on this machine, besides the copiers, including the
  // calling one. Takes some microseconds.
  unsigned other_threads() const;

 private:
  void work(unsigned copier);
  // Returns a task that can advance, or null if there is none or the program needs the CPU. `wait`:
  // sleep in that case until it may have changed.
  std::unique_ptr<Task> take(unsigned copier, bool wait) EXCLUDES(lock_);
  // Whether the program leaves a CPU to this copier.
  bool may_work(unsigned copier);
  std::unique_ptr<Task> next_task() REQUIRES(lock_);
  void put_back(std::unique_ptr<Task> task);
  void finish(std::unique_ptr<Task> task);

  const MakeBackend make_backend_;
  const Limits limits_;
  const unsigned cpus_;
  // Threads that copying keeps busy: copiers that are awake, and kernel threads that copy.
  std::atomic<unsigned> busy_threads_{0};
  std::atomic<unsigned> others_average_{0};  // other threads that could run

  Mutex lock_{LockOrder::copiers};
  Condition work_;     // for the first copier: there is work
  Condition surplus_;  // for the others: there is more work than the first copier does at once
  // The job whose turn is next is the first. It goes to the end when a task of it is taken.
  std::list<std::shared_ptr<Job>> jobs_ GUARDED_BY(lock_);
  std::deque<std::unique_ptr<Task>> waiting_ GUARDED_BY(lock_);
  bool stopping_ GUARDED_BY(lock_) = false;
  std::vector<std::thread> copiers_;
};

}  // namespace wherry::impl
