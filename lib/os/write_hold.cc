#include "os/write_hold.h"

#include <cerrno>
#include <system_error>

#include "os/access_faults.h"
#include "os/mapping.h"

namespace wherry::impl {

WriteHold::WriteHold(AddressRange range, UffdAccess access) : range_(range) {
  try {
    no_signals_.emplace();
    error_ = access == UffdAccess::none ? hold_by_protection() : hold_by_userfaultfd(access);
  } catch (const std::system_error& error) {
    error_ = error.code().value();
  }
}

int WriteHold::hold_by_userfaultfd(UffdAccess access) {
  // Write protection is of entries of the page table, so there must be some.
  if (const int error = populate_to_read(range_.start, range_.size())) return error;
  trap_.emplace(Userfaultfd::create(access));
  if (const int error = trap_->register_writes(range_.start, range_.size())) return error;
  for (;;) {
    const OpResult result = trap_->write_protect(range_.start, range_.size());
    if (result) return 0;
    if (result.status != OpStatus::incomplete) return ENOMEM;
  }
}

int WriteHold::hold_by_protection() {
  hold_writers(range_.start, range_.end);
  const int error = set_access(range_.start, range_.size(), Access::read);
  if (error != 0) release_writers();
  return error;
}

WriteHold::~WriteHold() {
  if (trap_) {
    // Fails where the memory was replaced, which has no protection to be lifted.
    static_cast<void>(trap_->write_unprotect(range_.start, range_.size()));
    // Not only by closing the descriptor: a child that was forked meanwhile may hold it, too.
    static_cast<void>(trap_->wake(range_.start, range_.size()));
  } else if (error_ == 0) {
    static_cast<void>(set_access(range_.start, range_.size(), Access::write));
    release_writers();
  }
}

}  // namespace wherry::impl
