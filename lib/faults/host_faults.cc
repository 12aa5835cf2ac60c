#include "faults/host_faults.h"

#include <atomic>

#include "base/check.h"
#include "base/lock_checks.h"
#include "os/process/fork_mark.h"
#include "os/process/poll.h"
#include "os/process/thread.h"
#include "os/signals/access_faults.h"
#include "trap/fault_board.h"

namespace wherry::impl {
namespace {

// What an answer in the thread that touches takes, twice. Alternate stacks may be as small as two
// signal frames and a little.
constexpr std::size_t answer_stack_bytes = 16 * 1024;

struct Caught {
  explicit Caught(const ArenaLayout& pages) : layout(&pages) {}

  std::atomic<const ArenaLayout*> layout;  // null: there is no arena any more
  FaultBoard board;
  const Fd notifier = make_semaphore();
  const ForkMark mark;  // a child made by the application's fork() has no arena
  std::atomic<FaultService*> service{nullptr};
};

// Never deleted: threads may fault as long as the process lives.
Caught* caught = nullptr;

bool on_access_fault(const AccessFault& fault) {
  const ArenaLayout* const layout = caught->layout.load(std::memory_order_acquire);
  if (layout == nullptr || !layout->page_of(fault.address) || !caught->mark.is_here()) return false;
#if defined(WHERRY_CHECKS)
  // The answer may need that very lock.
  if (holds_lock_of_fault_path())
    WHERRY_FAIL("{:#x} is managed memory, and touched under a lock of the fault path",
                fault.address);
#endif
  FaultMessage message;
  message.address = fault.address;
  message.thread = this_thread_id();
  message.write = fault.write;
  message.kind_known = false;
  FaultService* const service = caught->service.load(std::memory_order_acquire);
  const bool fits = fault.alternate_stack_bytes >= answer_stack_bytes;
  if (fits && service != nullptr && service->resolve_in_handler(message)) return true;
  return post_fault(caught->board, caught->notifier, fault.address, fault.write,
                    FaultLimit::bounded);
}

}  // namespace

std::shared_ptr<const FaultSource> HostFaults::catch_faults(const ArenaLayout& layout) {
  // After a refused cuInit the one from before is used again.
  if (caught == nullptr)
    caught = new Caught(layout);
  else
    caught->layout.store(&layout, std::memory_order_release);
  claim_access_faults(0, ~std::uintptr_t{0}, on_access_fault);
  return std::make_shared<const BoardSource>(nullptr, caught->board,
                                             duplicate_fd(caught->notifier.get()));
}

void HostFaults::let_go() {
  if (caught == nullptr) return;
  caught->layout.store(nullptr, std::memory_order_release);
  caught->service.store(nullptr, std::memory_order_release);
}

void HostFaults::serve(FaultService& service) {
  caught->service.store(&service, std::memory_order_release);
}

}  // namespace wherry::impl
