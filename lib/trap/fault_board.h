// Faults that threads report themselves, in the handler of the signal that they got: a table of
// slots in memory that the process shares with the host. For the host's own threads the memory is
// private.
//
// A thread that faults fills a slot, signals an eventfd, and waits in the slot for the answer.
// While it waits it changes page protections of its process on the host's request, so that no other
// thread has to be woken for that. Where no thread waits, a thread that does nothing else makes the
// changes. Every wait of the host has a limit.
//
// A kernel of a device can write anything into the board at any time. So the host checks what it
// reads there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/lock.h"
#include "os/files/fd.h"
#include "trap/fault_source.h"
#include "trap/protector.h"

namespace wherry::impl {

// One fault, and the changes that the host requests of its thread. `state` decides which side may
// write the other fields: a release store hands them to the other side, which loads with acquire.
struct alignas(64) FaultSlot {
  enum State : std::uint32_t {
    free,      // no thread uses it
    filling,   // a thread has claimed it, and fills it
    posted,    // the fault is to be read by the host
    taken,     // the host has read the fault
    asked,     // the host requests a change of protection
    done,      // the change was made; `error` is its result
    answered,  // the thread continues, as `refused` says
  };
  std::atomic<std::uint32_t> state{free};
  std::uint32_t thread = 0;
  std::uint64_t address = 0;  // of the access
  bool write = false;
  bool refused = false;
  std::atomic<bool> given_up{false};         // the thread does not wait any more
  std::atomic<std::uint32_t> attentions{0};  // how often a handler has attended to the fault
  // The requested change, and its result: 0 or an errno.
  Access access = Access::none;
  HugeEntries entries = HugeEntries::unchanged;
  int error = 0;
  std::uint64_t change_start = 0;
  std::uint64_t change_bytes = 0;
};

struct FaultBoard {
  static constexpr unsigned slots_max = 126;

  // Changes whenever a slot becomes free. Threads that find no free slot sleep on it.
  alignas(64) std::atomic<std::uint32_t> freed{0};
  std::atomic<std::uint32_t> sleepers{0};  // on `freed`, or about to
  FaultSlot changes;  // for change_protection_for_host(); free, taken, asked or done
  FaultSlot slots[slots_max];
};

// ---- In the process whose threads fault

enum class FaultLimit {
  bounded,  // the thread waits at most 30 s while no slot is free, and while no handler attends
  endless,  // the thread waits as long as its process lives, which ends with the host
};
// Posts the fault of the calling thread and waits for the answer. Returns true if the access is to
// be repeated; false if it was refused, or no handler has attended to it within the limit.
// `notifier`: see BoardSource. `page_table`: this process's; null in the host, which is asked for
// no changes. Async-signal-safe: called in a signal handler; a few hundred bytes of stack.
bool post_fault(FaultBoard& board, const Fd& notifier, std::uintptr_t address, bool write,
                FaultLimit limit, const PageTable* page_table);
// Makes the changes of protection that the host asks of no faulting thread. Runs on a thread of its
// own, which gets no signals.
[[noreturn]] void change_protection_for_host(FaultBoard& board, const PageTable& page_table);

// ---- In the host

// The faults of a board.
class BoardSource final : public FaultSource {
 public:
  // `notifier`: an eventfd that counts, signalled once for each message. `owner` keeps both alive.
  BoardSource(std::shared_ptr<void> owner, FaultBoard& board, const Fd& notifier)
      : owner_(std::move(owner)), board_(board), notifier_(notifier) {}

  int fd() const override { return notifier_.get(); }
  std::optional<FaultMessage> read_message() const override;
  FaultSlot* attend(const FaultMessage& message) const override;
  void answered(const FaultMessage& message, bool refused) const override;

 private:
  const std::shared_ptr<void> owner_;
  FaultBoard& board_;
  const Fd& notifier_;
  // The slot after the one that was read last. The slots are read in turns: a slot that is filled
  // again and again must not keep a handler from the others.
  mutable std::atomic<unsigned> next_{0};
};

// Changes page protections of a device process: the thread in the slot `waiter` makes the change if
// the slot is one of the board's, otherwise the thread of change_protection_for_host() makes it. A
// process that does not make a change within 5 s is ended.
class BoardProtector final : public Protector {
 public:
  // `process`: the pidfd of `pid`. `end_process`: kills it, without waiting for its end. `owner`
  // keeps the board alive.
  BoardProtector(std::shared_ptr<void> owner, FaultBoard& board, pid_t pid, Fd process,
                 std::function<void()> end_process, const ArenaLayout& layout)
      : owner_(std::move(owner)),
        board_(board),
        pid_(pid),
        process_(std::move(process)),
        end_process_(std::move(end_process)),
        layout_(layout) {}

  int protect(PageSpan span, Access access, HugeEntries entries, FaultSlot* waiter) override
      EXCLUDES(lock_);
  bool end_process() override;
  std::uint64_t count_mappings() override { return impl::count_mappings(pid_); }

 private:
  // Both have the slot's thread make a change, and wait until it has.
  int ask(FaultSlot& slot, PageSpan span, Access access, HugeEntries entries);
  int ask(FaultSlot& slot, std::uintptr_t address, std::size_t bytes, Access access,
          HugeEntries entries);

  const std::shared_ptr<void> owner_;
  FaultBoard& board_;
  const pid_t pid_;
  const Fd process_;
  const std::function<void()> end_process_;
  const ArenaLayout& layout_;
  std::atomic<bool> has_ended_{false};  // a request has found that the process has ended
  Mutex lock_{LockOrder::protector};    // guards the host's side of board_.changes
};

}  // namespace wherry::impl
