// Tells accesses to memory that a processor does not have from stale messages about such memory.
//
// When a message is read, its thread is in the middle of the access. So if the memory was freed, or
// access to it taken, before the message was read, the access is an error. If that happened after
// the message was read, the message may be stale: the answer to a neighbour's fault has woken its
// thread, which has ended the access, and the program has freed the memory then. No thread sleeps
// on a stale message, and a wake does no harm. A thread that does access such memory faults again
// after the wake. If the memory at this very page was freed once more, or access given or taken, in
// between, the second message may be as stale as the first, and the fault is answered once more.
// That ends: no thread leaves so many stale messages in a row.
//
// A thread accesses one page at a time. So one note for each thread is enough, and a table with a
// note for each of thousands of threads is small. A thread whose note is missing is only woken once
// more. So notes may be forgotten, but not by turns: a table that forgot the oldest note for each
// new one would forget every note before its thread is back, where there are more threads than
// notes. A full table therefore keeps its notes, and takes no new ones, until their threads are
// back or have had the time for it.
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
  // All outlive this. `memory`: for the notes; not malloc, whose lock a thread may hold that waits
  // for an answer. Throws std::bad_alloc.
  StaleFaults(const Audiences& audiences, const AddressSpace& address_space, Clock clock,
              std::pmr::memory_resource& memory = mapped_memory());

  // So often an access is answered once more, which takes some tenths of a second.
  static constexpr unsigned rounds_max = 10'000;
  // The table has this many places at first, which suffice without more memory, and never more than
  // `places_max`: a device can report threads that do not exist.
  static constexpr std::size_t places_first = 1024;
  static constexpr std::size_t places_max = 1 << 18;

  // No allocation is live at the page. Whether the fault is of an access to such memory. If that is
  // unknown, the access is noted: the same access again is one.
  bool is_of_freed(const Fault& fault) EXCLUDES(lock_);
  // The same where the faulting processor must not access the allocation.
  bool is_of_foreign(const Fault& fault) EXCLUDES(lock_);

 private:
  // The last free of the page, and how often access to memory has changed.
  struct Changes {
    std::uint64_t of_access = 0;
    std::uint64_t last_free = 0;
    bool operator==(const Changes&) const = default;
  };
  // The latest access of a thread. Threads of which the source does not say the number have a note
  // for each page.
  struct Suspect {
    bool exists = false;
    Processor processor = {};
    std::uint32_t thread = 0;
    unsigned rounds = 0;  // of answers one soon after the other, with changes in between
    PageIndex page = {};
    std::uint64_t answered_ns = 0;
    Changes changes = {};  // until then

    // 0: unknown
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
  // Whether there is a place for one more note.
  bool make_room(std::uint64_t now) REQUIRES(lock_);
  void forget_old(std::uint64_t now) REQUIRES(lock_);
  void grow() REQUIRES(lock_);
  // Within this time a thread that was woken accesses its memory again. All the others may be
  // answered meanwhile.
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
