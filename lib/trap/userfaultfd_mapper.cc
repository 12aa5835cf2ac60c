#include "trap/userfaultfd_mapper.h"

namespace wherry::impl {

void UserfaultfdMapper::attach(std::shared_ptr<const Userfaultfd> uffd) {
  const WriteGuard guard(lock_);
  uffd_ = std::move(uffd);
}

void UserfaultfdMapper::detach() {
  attach(nullptr);
}

template <typename Call>
OpResult UserfaultfdMapper::with_uffd(Call call) {
  const ReadGuard guard(lock_);
  return uffd_ ? call(*uffd_) : OpResult{OpStatus::process_gone, 0};
}

OpResult UserfaultfdMapper::copy_protected(PageSpan span, const std::byte* source) {
  return with_uffd([&](const Userfaultfd& uffd) {
    return uffd.copy(address(span), source, span.bytes(), true);
  });
}

OpResult UserfaultfdMapper::zero(PageSpan span) {
  return with_uffd([&](const Userfaultfd& uffd) { return uffd.zero(address(span), span.bytes()); });
}

OpResult UserfaultfdMapper::map_resident(PageSpan span, bool write_protected) {
  return with_uffd([&](const Userfaultfd& uffd) {
    return uffd.map_resident(address(span), span.bytes(), write_protected);
  });
}

OpResult UserfaultfdMapper::write_protect(PageSpan span) {
  return with_uffd(
      [&](const Userfaultfd& uffd) { return uffd.write_protect(address(span), span.bytes()); });
}

OpResult UserfaultfdMapper::write_unprotect(PageSpan span) {
  return with_uffd(
      [&](const Userfaultfd& uffd) { return uffd.write_unprotect(address(span), span.bytes()); });
}

OpResult UserfaultfdMapper::forbid(PageSpan span) {
  const OpResult poisoned = with_uffd([&](const Userfaultfd& uffd) {
    const OpResult first = uffd.poison(address(span), span.bytes());
    if (first.status != OpStatus::occupied) return first;
    // What protection leaves behind where a page has gone counts as something that is there.
    (void)uffd.write_unprotect(address(span), span.bytes());
    return uffd.poison(address(span), span.bytes());
  });
  if (poisoned || poisoned.status == OpStatus::process_gone) return poisoned;
  return {forbid_(address(span), span.bytes()) == 0 ? OpStatus::ok : OpStatus::process_gone, 0};
}

OpResult UserfaultfdMapper::wake(PageSpan span) {
  return with_uffd([&](const Userfaultfd& uffd) { return uffd.wake(address(span), span.bytes()); });
}

}  // namespace wherry::impl
