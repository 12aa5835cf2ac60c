#include "trap/view_changers.h"

#include <unistd.h>

#include <cerrno>

#include "os/memory/mapping.h"
#include "os/memory/mapping_count.h"

namespace wherry::impl {

int HostViewChanger::open(PageSpan pages, bool accessible) const {
  return open_pool_view(layout_.base(), pages, pools_.front(), {userfaultfd(), huge_pages_},
                        accessible);
}

int HostViewChanger::change_view(PageSpan span, Processor owner) {
  return show_pool({layout_.address_of(span.first), span.bytes(), span.offset()},
                   pools_[static_cast<std::size_t>(owner.index)], {userfaultfd(), huge_pages_});
}

int HostViewChanger::forget_entries(std::span<const PageSpan> runs) {
  for (const PageSpan& run : runs) {
    const std::uintptr_t address = layout_.address_of(run.first);
    if (const int error = impl::forget_entries(address, run.bytes(), userfaultfd())) return error;
  }
  return 0;
}

std::uint64_t HostViewChanger::count_mappings() {
  return impl::count_mappings(::getpid());
}

void DeviceViewChanger::attach(std::shared_ptr<TrappedProcess> process) {
  const LockGuard guard(lock_);
  process_ = std::move(process);
}

std::shared_ptr<TrappedProcess> DeviceViewChanger::process() const {
  const LockGuard guard(lock_);
  return process_;
}

int DeviceViewChanger::change_view(PageSpan span, Processor owner) {
  const auto device = process();
  const int error =
      device->change_view({layout_.address_of(span.first), span.bytes(), span.offset()},
                          static_cast<std::size_t>(owner.index));
  if (error == 0 || error == ESRCH || error == ENOMEM) return error;
  // It is unknown whether the device has changed the view or still will, and the view decides which
  // pool its writes go to. So the process is ended.
  device->give_up();
  return ESRCH;
}

int DeviceViewChanger::forget_entries(std::span<const PageSpan> runs) {
  return process()->forget_entries(runs);
}

// Called under locks that come later in the lock order, so it does not wait for lock_. Other
// threads hold that only while they read or replace the pointer.
bool DeviceViewChanger::is_overdue() {
  if (!lock_.try_lock()) return was_overdue_.load();
  const AdoptGuard guard(lock_);
  was_overdue_.store(process_ && process_->is_overdue());
  return was_overdue_.load();
}

std::uint64_t DeviceViewChanger::count_mappings() {
  return impl::count_mappings(process()->pid());
}

}  // namespace wherry::impl
