// Adopted ranges: existing private memory of the program that now lies in a shared file, so that
// other processes can map it. The program sees no difference: the addresses and contents stay the
// same, and its threads may write to the memory while it is adopted or given back. Both work in
// steps of at most 2 MiB.
//
// Whole pages are adopted. The first and the last page may also hold other data of the program,
// including bookkeeping of malloc and stdio, and other adopted ranges: such a page is given back
// with the last range in it. Pages of stacks hold other data as soon as their function has
// returned. All these are called shared pages here.
//
// A child of fork() must get private copies, as it would without adoption. The child copies the
// unshared pages itself, and its parent waits for that. Shared pages cannot wait: the C library
// writes to them in the child before any fork handler runs. So shared pages are private memory from
// just before the fork until just after it. Afterwards the bytes that the parent's threads changed
// in that time are written to the file one by one, so that bytes written by devices are kept. A
// thread that reads a shared page during the fork does not see what a device writes there
// meanwhile. The descriptors needed for this are opened in advance, because a program may fork when
// it cannot open any more.
//
// While a thread forks, no range is adopted or given back. No lock is held during that time: the
// application's own handlers (pthread_atfork) may take locks, and a thread that holds one of them
// may be waiting here. That wait has a limit.
//
// The calling thread's own stack may be part of a range, so pages are exchanged on another stack.
//
// Any thread may call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
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
    // Part of the range is not mapped, or not readable, or not writable although `read_only` is
    // false.
    absent,
    // Memory of a kind that cannot be adopted without a difference that the program could see.
    unsuitable,
    no_space,
    // Another thread was still in fork() when the time limit passed.
    forking,
  };
  // How long a call waits for a fork(): longer than a parent waits for its child's copies
  // (copy_limit_ns).
  static constexpr std::chrono::milliseconds fork_limit{15'000};

  // `access`: the best kind of userfaultfd that is permitted; nullopt: none is. `file` must outlive
  // this object.
  AdoptedRanges(const MemoryFile& file, std::optional<UffdAccess> access,
                std::chrono::milliseconds limit = fork_limit)
      : file_(file), access_(access), fork_limit_(limit) {}

  // Moves the whole pages that contain `bytes` to the file, starting at `offset`; the first and the
  // last page stay where they are in the file if another range has brought them there. Unless the
  // result is `adopted`, nothing has changed. Requires: none of these bytes is adopted.
  Verdict adopt(AddressRange bytes, std::uint64_t offset, bool read_only) EXCLUDES(lock_);
  // Pages of an adopted range, and where they are in the file. pieces_of() returns them in the
  // order of their addresses.
  struct Piece {
    AddressRange pages;
    std::uint64_t offset = 0;
  };
  std::vector<Piece> pieces_of(AddressRange bytes) const EXCLUDES(lock_);
  // Turns the pages back into private memory and frees them in the file, except those that another
  // range shares. Pages over which the program has mapped something else are left as they are.
  // Returns false if Linux refuses, or if a fork takes too long; then the pages stay in the file.
  // Requires: no other process maps them for this range.
  bool give_back(AddressRange bytes) EXCLUDES(lock_);
  // Whether the file still holds adopted pages in this part.
  bool uses(std::uint64_t offset, std::uint64_t bytes) const EXCLUDES(lock_);

  // Waits until no thread forks. Returns false after the time limit.
  bool wait_for_fork() EXCLUDES(lock_);

  // before_fork() and after_fork() are called around every fork(), by the forking thread. Between
  // them no range is adopted or given back.
  void before_fork() EXCLUDES(lock_);
  // Returns all adopted pages except the shared ones. Call it between before_fork() and
  // after_fork(). A child that is not a copy of the program (a device process) must not see them.
  std::vector<AddressRange> unshared_pages() const WHERRY_TSA(no_thread_safety_analysis);
  // `child_copies`: the child calls after_fork_in_child(), and the parent waits for it.
  void after_fork(bool child_copies) EXCLUDES(lock_);
  void after_fork_in_child() WHERRY_TSA(no_thread_safety_analysis);

 private:
  // Pages that are moved as a whole: a shared page, or the unshared pages of a range.
  struct Run {
    AddressRange pages;
    std::uint64_t offset = 0;  // in the file
    bool writable = true;
    bool shared = false;
    bool of_file = false;  // a part was a private mapping of a file before
    unsigned ranges = 1;   // how many ranges contain it

    std::uint64_t offset_of(std::uintptr_t address) const {
      return offset + (address - pages.start);
    }
  };
  using Runs = std::map<std::uintptr_t, Run>;  // by address
  // A shared page that is private memory during a fork, and its contents when the fork began.
  struct Lent {
    const Run* owner = nullptr;
    std::uintptr_t page = 0;
    std::byte* before = nullptr;
  };
  // The process's mappings, thread stacks and pinned buffers.
  struct Surroundings;

  // Divides a range that is to be adopted into runs.
  static std::vector<Run> runs_of(AddressRange bytes, std::uint64_t offset);
  // Returns why the run cannot be adopted; nullopt if it can. Sets its fields that depend on its
  // memory.
  std::optional<Verdict> why_not(const Surroundings& surroundings, bool read_only, Run& run) const;
  // Returns why the adopted run cannot be part of one more range; nullopt if it can.
  std::optional<Verdict> why_not_again(const Surroundings& surroundings, bool read_only,
                                       const Run& run) const;
  int move_into_file(const Run& run) const;
  int move_into_file(const Run& run, AddressRange part, Substitute& shared) const;
  int move_out_of_file(const Run& run, const MappedRange& part, Substitute& own) const;
  // Replaces each part of the run that still maps the file by private memory.
  int restore(const Run& run) const;
  // Restores several runs, and frees their pages in the file. Returns false if some cannot be
  // restored, which remain in `runs`.
  bool give_back_all(Runs& runs) REQUIRES(lock_);
  bool wait_for_fork_locked() REQUIRES(lock_);
  // Opens the descriptors that a fork needs. Throws std::system_error.
  void get_ready() REQUIRES(lock_);
  void let_go_of_descriptors() REQUIRES(lock_);
  void renew_pipe() REQUIRES(lock_);
  void lend_all() REQUIRES(lock_);
  void lend(const Run& owner, std::uintptr_t page, std::byte* before) REQUIRES(lock_);
  void take_all_back() REQUIRES(lock_);
  int take_back(const Lent& lent) const;
  const Userfaultfd* trap() const { return trap_ ? &*trap_ : nullptr; }

  const MemoryFile& file_;
  const std::optional<UffdAccess> access_;
  const std::chrono::milliseconds fork_limit_;
  mutable Mutex lock_{LockOrder::adopted};
  Condition fork_over_;
  std::optional<std::thread::id> forker_ GUARDED_BY(lock_);  // nullopt: no thread forks
  // Used to freeze writes (WriteFreeze); present while there are ranges. Changed only under lock_.
  // nullopt: no userfaultfd is permitted.
  std::optional<Userfaultfd> trap_;
  Runs runs_ GUARDED_BY(lock_);
  std::vector<Lent> lent_ GUARDED_BY(lock_);
  std::optional<Substitute> before_ GUARDED_BY(lock_);
  // The two ends of a pipe, open while there are ranges. Each child inherits copying_; copied_
  // reports the end of the file when no child has copying_ open any more.
  Fd copied_ GUARDED_BY(lock_);
  Fd copying_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
