// Faults that threads report themselves, from the handler of the signal that they got, and what is
// asked of their process in return: a table in memory that the process shares with the host's
// handlers.
//
// A thread that faults fills a slot, signals and waits there for its answer. While it waits it
// changes the protection of its process for the host, which needs nobody else to be woken then.
// When nobody waits, a thread that does nothing else changes it. No wait is without a limit.
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

// One conversation. Who may write what is decided by the state: each side waits for the other's.
struct alignas(64) FaultSlot {
  enum State : std::uint32_t {
    free,
    filling,   // a thread has claimed it
    posted,    // there is a message
    taken,     // the host has read it, and asks nothing at the moment
    asked,     // the process shall change protection
    done,      // it has
    answered,  // the thread goes on
  };
  std::atomic<std::uint32_t> state{free};
  std::uint32_t thread = 0;
  std::uint64_t address = 0;  // that was touched
  bool write = false;
  bool refused = false;
  std::atomic<bool> given_up{false};         // its thread waits no more
  std::atomic<std::uint32_t> attentions{0};  // how often a handler has looked at the fault
  Access access = Access::none;              // that is asked for, of these addresses
  int error = 0;                             // what came of it
  std::uint64_t change_start = 0;
  std::uint64_t change_bytes = 0;
};

struct FaultBoard {
  static constexpr unsigned slots_max = 126;

  FaultSlot changes;  // of the thread that does nothing else; always taken, asked or done
  FaultSlot slots[slots_max];
};

// ---- in the process that faults; both may be called in a signal handler

// Has the fault answered. True: the access is to be tried again; false: it was refused, or no
// handler looks at it any more. While handlers look at it, how long it may wait is theirs to say.
// `notifier`: an eventfd that counts, see BoardSource.
// endless: as long as the process lives, which ends with the host's.
enum class FaultLimit {
  bounded,
  endless,
};
bool post_fault(FaultBoard& board, const Fd& notifier, std::uintptr_t address, bool write,
                FaultLimit limit);
// Changes protection whenever it is asked to; for a thread of its own, with no signals.
[[noreturn]] void change_protection_for_host(FaultBoard& board);

// ---- in the host; `board` outlives both

class BoardSource final : public FaultSource {
 public:
  // `notifier`: a semaphore, signalled once for each message.
  BoardSource(std::shared_ptr<void> owner, FaultBoard& board, Fd notifier)
      : owner_(std::move(owner)), board_(board), notifier_(std::move(notifier)) {}

  int fd() const override { return notifier_.get(); }
  std::optional<FaultMessage> read_message() const override;
  void attend(const FaultMessage& message) const override;
  void leave() const override;
  void answered(const FaultMessage& message, bool refused) const override;

 private:
  const std::shared_ptr<void> owner_;  // of the board
  FaultBoard& board_;
  const Fd notifier_;
};

// Has the process behind a board do it: the thread whose fault the caller attends to, or the one
// that does nothing else. A process that does not answer in time is ended.
class BoardProtector final : public Protector {
 public:
  // `process`: the pidfd of `pid`. `end_process`: ends it; waits for nothing.
  BoardProtector(std::shared_ptr<void> owner, FaultBoard& board, pid_t pid, Fd process,
                 std::function<void()> end_process, const ArenaLayout& layout)
      : owner_(std::move(owner)),
        board_(board),
        pid_(pid),
        process_(std::move(process)),
        end_process_(std::move(end_process)),
        layout_(layout) {}

  int protect(PageSpan span, Access access) override EXCLUDES(lock_);
  bool end_process() override;
  std::uint64_t count_mappings() override { return impl::count_mappings(pid_); }

 private:
  int ask(FaultSlot& slot, PageSpan span, Access access);
  int ask(FaultSlot& slot, std::uintptr_t address, std::size_t bytes, Access access);

  const std::shared_ptr<void> owner_;
  FaultBoard& board_;
  const pid_t pid_;
  const Fd process_;
  const std::function<void()> end_process_;
  const ArenaLayout& layout_;
  Mutex lock_{LockOrder::protector};  // board_.changes
};

}  // namespace wherry::impl
