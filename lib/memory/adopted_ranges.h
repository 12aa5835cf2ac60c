// Memory of the program's own that lies in a file now, so that others can map it, too: adopted. For
// the program nothing changes: same addresses, same contents, and threads write to it while it is
// adopted and given back, 2 MiB at a time.
//
// Whole pages are adopted. The first and the last one may hold other things of the program's as
// well, and malloc's and stdio's notes among them: they are called shared here.
//
// A child of fork() is to have private copies, as before. The other pages are copied by the child,
// which its parent waits for. The shared ones cannot wait for that: the C library writes to them in
// the child before any handler runs. So they are private memory again from just before the fork
// until just after it; what the parent's threads write in that time is then entered in the file
// byte by byte, beside what devices wrote. A thread that reads what a device writes there meanwhile
// reads what was there before. The descriptors that all this takes are had in advance: a program
// forks also where it may have no more.
//
// While a thread forks nothing is adopted or given back, and no lock is held: the application's own
// handlers (pthread_atfork) may take locks, and a thread that has one may be waiting here. It waits
// with a limit.
//
// Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/lock.h"
#include "os/files/fd.h"
#include "os/files/memory_file.h"
#include "os/memory/address_map.h"
#include "os/memory/substitute.h"
#include "os/memory/userfaultfd.h"
#include "os/process/condition.h"

namespace wherry::impl {

class AdoptedRanges {
 public:
  enum class Verdict {
    adopted,
    absent,  // not all of it is memory that may be read, and written unless that is not asked for
    unsuitable,  // memory of a kind that cannot be adopted without a difference that the program
                 // could see
    no_room,
    forking,  // another thread, for longer than is to be waited
  };
  // Longer than a parent waits for its child's copies.
  static constexpr std::chrono::milliseconds fork_limit{15'000};

  // `access`: the best userfaultfd that is permitted. The file outlives this.
  AdoptedRanges(const MemoryFile& file, UffdAccess access,
                std::chrono::milliseconds limit = fork_limit)
      : file_(file), access_(access), fork_limit_(limit) {}

  // The whole pages around the bytes go to the file, at `offset`. Nothing has changed unless they
  // are adopted. Requires: none of them is adopted.
  Verdict adopt(AddressRange bytes, std::uint64_t offset, bool read_only) EXCLUDES(lock_);
  // They become private memory again, and leave the file; those that the program has mapped
  // something else to stay what they are. False: the kernel refuses, or a fork takes too long, and
  // they stay in the file. Requires: nobody else maps them.
  bool give_back(AddressRange bytes) EXCLUDES(lock_);

  // Waits until nobody forks. False: that takes too long.
  bool wait_for_fork() EXCLUDES(lock_);

  // Around every fork(), in the thread that forks: nothing is adopted or given back from the first
  // to the last.
  void before_fork() EXCLUDES(lock_);
  // In between: what a child that is no copy of the program must not see. All but shared pages.
  std::vector<AddressRange> unshared_pages() const WHERRY_TSA(no_thread_safety_analysis);
  // `child_copies`: the child calls after_fork_in_child().
  void after_fork(bool child_copies) EXCLUDES(lock_);
  void after_fork_in_child() WHERRY_TSA(no_thread_safety_analysis);

 private:
  struct Adopted {
    AddressRange bytes;
    std::uint64_t offset = 0;  // in the file, of the first page
    bool writable = true;

    AddressRange pages() const;
    AddressRange unshared() const;
    std::uint64_t offset_of(std::uintptr_t address) const;
  };
  // A shared page during a fork, and its contents when it began.
  struct Lent {
    const Adopted* owner = nullptr;
    std::uintptr_t page = 0;
    std::byte* before = nullptr;
  };

  std::optional<Verdict> why_not(std::string_view map, AddressRange pages, bool read_only,
                                 bool& writable) const;
  int move_into_file(const Adopted& range, AddressRange part, Substitute& shared) const;
  int move_out_of_file(const Adopted& range, const MappedRange& part, Substitute& own) const;
  // What this range has mapped of the file in its place.
  int restore(const Adopted& range) const;
  bool wait_for_fork_locked() REQUIRES(lock_);
  // Has ready what takes descriptors. Throws std::system_error.
  void get_ready() REQUIRES(lock_);
  void let_go_of_descriptors() REQUIRES(lock_);
  void renew_pipe() REQUIRES(lock_);
  void lend_all() REQUIRES(lock_);
  void lend(const Adopted& owner, std::uintptr_t page, std::byte* before) REQUIRES(lock_);
  void take_all_back() REQUIRES(lock_);
  int take_back(const Lent& lent) const;
  const Userfaultfd* trap() const { return trap_ ? &*trap_ : nullptr; }

  const MemoryFile& file_;
  const UffdAccess access_;
  const std::chrono::milliseconds fork_limit_;
  Mutex lock_{LockOrder::adopted};
  Condition fork_over_;
  std::optional<std::thread::id> forker_ GUARDED_BY(lock_);  // nothing: nobody forks
  // What writers are held with, while there are ranges; changed under the lock. Nothing: no
  // userfaultfd is permitted.
  std::optional<Userfaultfd> trap_;
  std::vector<Adopted> ranges_ GUARDED_BY(lock_);
  std::vector<Lent> lent_ GUARDED_BY(lock_);
  std::optional<Substitute> before_ GUARDED_BY(lock_);
  Fd copied_ GUARDED_BY(lock_);   // while there are ranges; ends when ...
  Fd copying_ GUARDED_BY(lock_);  // ... no child has this any more
};

}  // namespace wherry::impl
