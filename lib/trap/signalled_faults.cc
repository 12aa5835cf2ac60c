#include "trap/signalled_faults.h"

#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/lock_checks.h"
#include "os/memory/page_table.h"
#include "os/process/fork_mark.h"
#include "os/process/poll.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// All addresses are claimed, because managed variables may lie anywhere (pages/arena_layout.h).
constexpr std::uintptr_t claim_end = ~std::uintptr_t{0};

// Twice the stack that a resolution in the accessing thread takes. Alternate stacks may be as small
// as two signal frames and a little.
constexpr std::size_t resolution_stack_bytes = 16 * 1024;

struct HostFaults {
  explicit HostFaults(const ArenaLayout& pages) : layout(&pages) {}

  std::atomic<const ArenaLayout*> layout;  // null: there is no arena any more
  FaultBoard board;
  const Fd notifier = make_semaphore();
  const ForkMark mark;  // a child made by the application's fork() has no arena
  std::atomic<InThreadResolver> resolver{nullptr};
};

// Never deleted: threads may fault as long as the process lives.
HostFaults* of_host = nullptr;

bool on_host_fault(const AccessFault& fault) {
  HostFaults& host = *of_host;
  const ArenaLayout* const layout = host.layout.load(std::memory_order_acquire);
  // The mark is checked first, because a device process, which is a fork, may not have the layout.
  if (!host.mark.is_here() || layout == nullptr || !layout->page_of(fault.address)) return false;
#if defined(WHERRY_CHECKS)
  // Resolving the fault may need that very lock.
  if (holds_lock_of_fault_path())
    WHERRY_FAIL("{:#x} is managed memory, and touched under a lock of the fault path",
                fault.address);
#endif
  FaultMessage message;
  message.address = fault.address;
  message.thread = this_thread_id();
  message.write = fault.write;
  message.kind_known = false;
  const InThreadResolver resolver = host.resolver.load(std::memory_order_acquire);
  const bool fits = fault.alternate_stack_bytes >= resolution_stack_bytes;
  if (fits && resolver != nullptr && resolver(message)) return true;
  return post_fault(host.board, host.notifier, fault.address, fault.write, FaultLimit::bounded,
                    nullptr);
}

struct DeviceFaults {
  const ArenaLayout& layout;
  FaultBoard& board;
  const Fd notifier;
  const PageTable& page_table;
  const ForkMark mark;  // a process that a kernel forks has no arena
};

const DeviceFaults* of_device = nullptr;  // never deleted, as of_host

bool on_device_fault(const AccessFault& fault) {
  const DeviceFaults& device = *of_device;
  return device.layout.page_of(fault.address) && device.mark.is_here() &&
         post_fault(device.board, device.notifier, fault.address, fault.write, FaultLimit::endless,
                    &device.page_table);
}

}  // namespace

std::shared_ptr<const FaultSource> catch_host_faults(const ArenaLayout& layout,
                                                     AccessSignal signal) {
  // If an earlier cuInit has failed, the object that it made is used again.
  if (of_host == nullptr)
    of_host = new HostFaults(layout);
  else
    of_host->layout.store(&layout, std::memory_order_release);
  claim_access_faults(0, claim_end, signal, on_host_fault);
  return std::make_shared<const BoardSource>(nullptr, of_host->board, of_host->notifier);
}

void resolve_host_faults_by(InThreadResolver resolver) {
  of_host->resolver.store(resolver, std::memory_order_release);
}

void release_host_faults() {
  if (of_host == nullptr) return;
  of_host->layout.store(nullptr, std::memory_order_release);
  of_host->resolver.store(nullptr, std::memory_order_release);
}

void post_device_faults(const ArenaLayout& layout, FaultBoard& board, Fd notifier,
                        const PageTable& page_table) {
  of_device = new DeviceFaults{layout, board, std::move(notifier), page_table, {}};
  claim_access_faults(0, claim_end, AccessSignal::segv, on_device_fault);
}

}  // namespace wherry::impl
