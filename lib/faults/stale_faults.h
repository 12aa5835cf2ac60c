// Tells erroneous accesses, to memory that is freed or another device's, from stale fault messages.
//
// When a handler reads a message, the faulting thread is in the middle of its access. So the access
// is an error if the memory was freed, or access to it taken, before the message was read. If that
// happened later, the message may be stale: the wake for a fault on a neighbouring page has let the
// thread end its access, and the program has freed the memory then. No thread sleeps on a stale
// message, so a wake does no harm. A thread that does access such memory faults again after the
// wake. If the page was freed again, or access to memory changed, between the two messages, the
// second may be stale, too, and the thread is woken once more. That ends after `rounds_max` rounds,
// because no thread leaves so many stale messages in a row.
//
// A thread accesses one page at a time. So one note for each thread, of its latest access that may
// be stale, is enough, and a table for thousands of threads is small. Notes may be lost: a thread
// without one is only woken once more. But if a table dropped its oldest note for each new one,
// then with more threads than notes it would drop every note before its thread is back. A full
// table therefore takes no new notes until the threads of its notes are back or have had the time
// for it.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "base/clock.h"
#include "base/lock.h"
#include "base/processor.h"
#include "faults/fault.h"
#include "os/memory/mapped_memory.h"
#include "pages/address_space.h"
#include "pages/audiences.h"

namespace wherry::impl {

// Any thread.
class StaleFaults {
 public:
  // All outlive this object. `memory`: for the notes. It is not malloc's, because a thread that
  // waits for an answer may hold malloc's lock. Throws std::bad_alloc.
  StaleFaults(const Audiences& audiences, const AddressSpace& address_space, Clock clock,
              std::pmr::memory_resource& memory = mapped_memory());

  // After so many wakes, which take some tenths of a second, an access is taken for an error.
  static constexpr unsigned rounds_max = 10'000;
  // The table has `places_first` places at first, and at most `places_max` later, because a device
  // can report threads that do not exist. Without memory for more, the first ones suffice.
  static constexpr std::size_t places_first = 1024;
  static constexpr std::size_t places_max = 1 << 18;

  // For a page at which no allocation is live: whether the access is an error. If that is unknown,
  // the access is noted, and is an error when it is repeated.
  bool is_of_freed(const Fault& fault) EXCLUDES(lock_);
  // For a page of an allocation that the faulting processor must not access: whether the access is
  // an error. As above, an access is noted if that is unknown.
  bool is_of_foreign(const Fault& fault) EXCLUDES(lock_);

 private:
  // The last free of the page, and how often access to memory has changed.
  struct Changes {
    std::uint64_t of_access = 0;
    std::uint64_t last_free = 0;
    bool operator==(const Changes&) const = default;
  };
  // The latest access of a thread. If the source does not report thread numbers, there is one for
  // each page.
  struct Suspect {
    bool exists = false;
    Processor processor = {};
    std::uint32_t thread = 0;
    unsigned rounds = 0;  // wakes soon after one another, with changes in between
    PageIndex page = {};
    std::uint64_t answered_ns = 0;
    Changes changes = {};  // when the access was answered

    // A key for the note: the thread's number, or one made of the page if that is unknown.
    std::uint64_t thread_or_page() const { return thread != 0 ? thread : ~page.value; }
    bool is_of_thread_of(const Suspect& other) const {
      return processor == other.processor && thread_or_page() == other.thread_or_page();
    }
  };

  bool came_back(const Fault& fault, const Changes& changes) EXCLUDES(lock_);
  // The place of the thread's note, or the free place where it belongs.
  Suspect& place_of(const Suspect& suspect) REQUIRES(lock_);
  std::size_t home_of(const Suspect& suspect) const REQUIRES(lock_);
  void note(const Suspect& suspect) REQUIRES(lock_);
  // Frees the place, and moves the notes that follow it nearer to where they belong.
  void forget(std::size_t place) REQUIRES(lock_);
  // Makes room for one more note. Returns whether there is any.
  bool make_room(std::uint64_t now) REQUIRES(lock_);
  void forget_old(std::uint64_t now) REQUIRES(lock_);
  void grow() REQUIRES(lock_);
  // Within this time a woken thread repeats its access, even if all others are answered meanwhile.
  std::uint64_t soon_ns() const REQUIRES(lock_);
  bool is_crowded() const REQUIRES(lock_) { return 4 * (used_ + 1) > 3 * suspects_.size(); }

  const Audiences& audiences_;
  const AddressSpace& address_space_;
  const Clock clock_;
  Mutex lock_{LockOrder::suspects};
  // A hash table of a power of two of places. A note is at the place that its thread's hash names,
  // or at the first free one after that.
  std::pmr::vector<Suspect> suspects_ GUARDED_BY(lock_);
  std::size_t used_ GUARDED_BY(lock_) = 0;
  std::uint64_t next_look_ns_ GUARDED_BY(lock_) = 0;  // for old notes
};

}  // namespace wherry::impl
