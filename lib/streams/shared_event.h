// An event that several processes record, query and await; its state is in memory that all of them
// map. The recording process writes down a moment as its own, and later that the moment is over. A
// waiting process checks whether the recorder still has the event's file open: the recorder has a
// mark on the file (os/files/range_mark.h), which Linux removes when that process ends or executes
// another program, and which its children do not inherit. Any thread may call.
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
  // How many moments (recordings of the event) may be unfinished at a time.
  static constexpr std::uint64_t moments_max = 120;

  // Creates an event that was never recorded. Throws std::system_error.
  SharedEvent();
  // Opens an event that another process has created. No other opener may use this open file
  // description. Returns null if this is not the file of an event. Throws std::system_error.
  static std::shared_ptr<SharedEvent> of(Fd file);

  int fd() const { return memory_.fd(); }
  // Unique in this process.
  std::uint64_t serial() const { return serial_; }
  static std::size_t bytes();

  // A moment that this process has begun. If it is dropped, the moment ends with an error.
  class Pending {
   public:
    Pending() = default;  // no moment
    ~Pending() { finish(WorkStatus::launch_failed); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // The caller may hold any lock.
    void finish(WorkStatus status);

   private:
    friend class SharedEvent;

    std::shared_ptr<SharedEvent> event_;  // null: the moment is over
    std::uint64_t moment_ = 0;
  };
  // The event stands for a new moment from now on. Returns null if moments_max are unfinished.
  // Throws std::bad_alloc.
  std::shared_ptr<Pending> begin();

  // The moment that the event stands for; 0: it was never recorded.
  std::uint64_t last() const;
  // How a moment ended; nullopt if it is not over. Also launch_failed if the recording process has
  // ended without finishing it.
  std::optional<WorkStatus> query(std::uint64_t moment) const;
  // Sleeps until the moment is over.
  WorkStatus wait(std::uint64_t moment) const;
  // Finishes the recording when the moment is over, also if this event has been dropped by then.
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
  // The query of a thread that has waited since `patience` began. It also detects that the recorder
  // ended before it wrote the moment down.
  std::optional<WorkStatus> query(std::uint64_t moment, Patience& patience) const;
  void changed() const;
  // Finishes the recordings whose moments are over. Returns false if none is left.
  bool serve() EXCLUDES(lock_);
  void serve_all();

  SealedMemory memory_;
  const std::uint32_t recorder_;  // numbers this opener among all that have opened the file
  const std::uint64_t serial_;
  Mutex lock_{LockOrder::shared_event};
  std::vector<Waiter> waiters_ GUARDED_BY(lock_);
  bool serving_ GUARDED_BY(lock_) = false;  // true: a thread runs serve_all()
};

}  // namespace wherry::impl
