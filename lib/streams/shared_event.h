// An event of which several processes record, ask and await moments: its state is in memory that
// all of them see. Whoever records writes a moment down as his, and that it is over when it is; who
// waits looks whether he still has the event's file mapped: a mark on it (os/files/range_mark.h)
// stands for him, which the kernel takes away when his process ends or becomes another program, and
// which no child of his has. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/patience.h"
#include "os/memory/sealed_memory.h"
#include "streams/recording.h"

namespace wherry::impl {

class SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  // How many moments can be recorded and not over at once.
  static constexpr std::uint64_t moments_max = 120;

  // Never recorded. Throws std::system_error.
  SharedEvent();
  // One that another process has made; the open file description must be nobody else's. Null: this
  // is not the file of one. Throws std::system_error.
  static std::shared_ptr<SharedEvent> of(Fd file);

  int fd() const { return memory_.fd(); }
  // Never another one's in this process.
  std::uint64_t serial() const { return serial_; }
  static std::size_t bytes();

  // A moment that this process has begun. It ends with an error if it is dropped.
  class Pending {
   public:
    Pending() = default;  // of none yet
    ~Pending() { finish(WorkStatus::launch_failed); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Any lock may be held.
    void finish(WorkStatus status);

   private:
    friend class SharedEvent;

    std::shared_ptr<SharedEvent> event_;  // null: it is over
    std::uint64_t moment_ = 0;
  };
  // The event stands for a new moment from now on. Null: too many are not over. Throws
  // std::bad_alloc.
  std::shared_ptr<Pending> begin();

  // The moment that it stands for; 0: it was never recorded.
  std::uint64_t last() const;
  // How a moment ended; nothing: it has not. launch_failed also when the program that was to finish
  // it has ended.
  std::optional<WorkStatus> query(std::uint64_t moment) const;
  // Sleeps until it has.
  WorkStatus wait(std::uint64_t moment) const;
  // The recording ends as the moment does, also if nobody holds this event any more by then.
  void tell(std::uint64_t moment, std::shared_ptr<Recording> recording) EXCLUDES(lock_);

 private:
  struct State;
  struct Moment;
  struct Waiter {
    std::uint64_t moment = 0;
    Patience patience;
    std::shared_ptr<Recording> recording;
  };

  explicit SharedEvent(SealedMemory memory);
  State& state() const { return *static_cast<State*>(memory_.data()); }
  Moment& slot_of(std::uint64_t moment) const;
  // For who has waited since then: also when whoever began the moment has ended before he wrote
  // that down.
  std::optional<WorkStatus> query(std::uint64_t moment, Patience& patience) const;
  void changed() const;
  // Tells those whose moments are over. False: none is left.
  bool serve() EXCLUDES(lock_);
  void serve_all();

  SealedMemory memory_;
  const std::uint32_t recorder_;  // this one, among all that have opened the file
  const std::uint64_t serial_;
  Mutex lock_{LockOrder::shared_event};
  std::vector<Waiter> waiters_ GUARDED_BY(lock_);
  bool serving_ GUARDED_BY(lock_) = false;  // by a thread of its own
};

}  // namespace wherry::impl
