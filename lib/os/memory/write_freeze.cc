#include "os/memory/write_freeze.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/page.h"
#include "base/patience.h"
#include "os/memory/mapping.h"
#include "os/signals/access_faults.h"

namespace wherry::impl {
namespace {

// Counts of all freezes. A freeze is counted in `begun` before it stops any writer, and in `over`
// once it no longer stops any.
std::atomic<std::uint64_t> begun{0};
std::atomic<std::uint64_t> over{0};

// Linux before 6.3 reports ENOENT for a range with several mappings. Then pages are protected
// singly.
OpStatus protect_writes(const Userfaultfd& trap, AddressRange range) {
  for (;;) {
    const OpResult result = trap.write_protect(range.start, range.size());
    if (result.status == OpStatus::gone && range.size() > page_size) break;
    if (result.status != OpStatus::incomplete) return result.status;
  }
  for (std::uintptr_t page = range.start; page < range.end; page += page_size) {
    const OpStatus status = protect_writes(trap, {page, page + page_size});
    if (status != OpStatus::ok) return status;
  }
  return OpStatus::ok;
}

constexpr std::uint64_t watch_limit_ns = 10'000'000'000;
constexpr std::chrono::microseconds watch_pause{50};

}  // namespace

WriteFreeze::WriteFreeze(AddressRange range, const Userfaultfd* trap) : range_(range), trap_(trap) {
  begun.fetch_add(1);
  try {
    no_signals_.emplace();
    error_ = trap_ == nullptr ? freeze_by_protection() : freeze_by_userfaultfd();
  } catch (const std::system_error& error) {
    error_ = error.code().value();
  }
}

int WriteFreeze::freeze_by_userfaultfd() {
  // Write protection is a property of page-table entries, so they must exist.
  if (const int error = populate_to_read(range_.start, range_.size())) return error;
  if (const int error = trap_->register_writes(range_.start, range_.size())) return error;
  registered_ = true;
  return protect_writes(*trap_, range_) == OpStatus::ok ? 0 : ENOMEM;
}

int WriteFreeze::freeze_by_protection() {
  freeze_writers(range_.start, range_.end);
  const int error = set_access(range_.start, range_.size(), Access::read);
  if (error != 0) thaw_writers();
  return error;
}

WriteFreeze::~WriteFreeze() {
  if (registered_) {
    // Each call fails where the memory was replaced; the new memory has no protection to lift.
    static_cast<void>(trap_->write_unprotect(range_.start, range_.size()));
    static_cast<void>(trap_->unregister_range(range_.start, range_.size()));
    static_cast<void>(trap_->wake(range_.start, range_.size()));
  } else if (trap_ == nullptr && error_ == 0) {
    static_cast<void>(set_access(range_.start, range_.size(), Access::write));
    thaw_writers();
  }
  over.fetch_add(1);
}

FreezeWatch::FreezeWatch() : over_(over.load()) {}

bool FreezeWatch::saw_one() {
  if (begun.load() == over_) return false;
  Patience patience(watch_limit_ns);
  // Both counts only grow. `begun` is read last, so equality means that every freeze has ended.
  for (; !patience.is_over(); patience.note_wait()) {
    over_ = over.load();
    if (begun.load() == over_) return true;
    std::this_thread::sleep_for(watch_pause);
  }
  return false;
}

}  // namespace wherry::impl
