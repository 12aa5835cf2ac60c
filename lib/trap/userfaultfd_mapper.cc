#include "trap/userfaultfd_mapper.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "base/check.h"
#include "os/memory/folio_split.h"
#include "os/memory/mapping.h"

namespace wherry::impl {
namespace {

// The attempts take one second, in which Linux may reclaim memory for the registration.
constexpr int register_attempts_max = 1000;
constexpr auto register_pause = std::chrono::milliseconds(1);

}  // namespace

void UserfaultfdMapper::attach(std::shared_ptr<const Userfaultfd> uffd, pid_t process) {
  std::optional<PageTable> page_table;
  if (uffd) page_table.emplace(process);
  const WriteGuard guard(lock_);
  uffd_ = std::move(uffd);
  process_ = process;
  page_table_ = std::move(page_table);
  enters_huge_pages_ = true;
}

void UserfaultfdMapper::detach() {
  attach(nullptr);
}

template <typename Call>
OpResult UserfaultfdMapper::with_uffd(Call call) {
  const ReadGuard guard(lock_);
  return uffd_ ? call(*uffd_) : OpResult{OpStatus::process_gone, 0};
}

// Does nothing, because the punch that follows removes the entries.
OpResult UserfaultfdMapper::unmap(PageSpan span, FaultSlot*) {
  return {OpStatus::ok, span.bytes()};
}

OpResult UserfaultfdMapper::copy_protected(PageSpan span, const std::byte* source, FaultSlot*) {
  return with_uffd([&](const Userfaultfd& uffd) {
    return uffd.copy(address(span), source, span.bytes(), true);
  });
}

OpResult UserfaultfdMapper::zero(PageSpan span, FaultSlot*) {
  return with_uffd([&](const Userfaultfd& uffd) { return uffd.zero(address(span), span.bytes()); });
}

OpResult UserfaultfdMapper::map_resident(PageSpan span, bool write_protected, FaultSlot*) {
  return with_uffd([&](const Userfaultfd& uffd) {
    return uffd.map_resident(address(span), span.bytes(), write_protected);
  });
}

// Linux enters no huge page where a userfaultfd is registered, so the block is unregistered for a
// moment. A thread that accesses it meanwhile finds its pages in the file, as if they had been
// mapped already.
OpResult UserfaultfdMapper::map_whole(PageSpan block, FaultSlot*) {
  if (!enters_huge_pages_) return {OpStatus::unsupported, 0};
  return with_uffd([&](const Userfaultfd& uffd) REQUIRES_SHARED(lock_) -> OpResult {
    int error = uffd.unregister_range(address(block), block.bytes());
    if (error == 0) error = enter_huge_page(process_, address(block), block.bytes());
    if (error == EPERM || error == ENOSYS) enters_huge_pages_ = false;
    // The block is registered again in any case: a call that failed may have done a part.
    const OpStatus trapped = trap_again(uffd, block);
    if (trapped != OpStatus::ok) return {trapped, 0};
    const OpStatus entered = check_entered_whole(uffd, block);
    return {entered, entered == OpStatus::ok ? block.bytes() : 0};
  });
}

// Where a page table exists already, Linux enters no huge page, but up to 512 small entries.
OpStatus UserfaultfdMapper::check_entered_whole(const Userfaultfd& uffd, PageSpan block) const {
  if (const auto entries = page_table_->entries_of(address(block))) {
    switch (*entries) {
      case PageTable::Entries::huge:
        return OpStatus::ok;
      case PageTable::Entries::small:
        return OpStatus::occupied;
      case PageTable::Entries::incomplete:
        return OpStatus::incomplete;
    }
  }
  // A Linux that cannot tell (before 6.7) enters the block's last page only as part of a huge page.
  const std::uintptr_t last = address(block) + block.bytes() - page_size;
  const OpStatus mapped = uffd.map_resident(last, page_size, false).status;
  if (mapped == OpStatus::occupied) return OpStatus::ok;
  return mapped == OpStatus::process_gone ? mapped : OpStatus::incomplete;
}

// Waits under the block's lock: an exception to the rule of trap/mapper.h. If it returned
// `incomplete`, the caller would release the lock, and other threads would move pages of a block
// that is not trapped. Such a block has no write protection, so writes would be lost, and an access
// to a page that has left would create a page of zeros that the library does not know of.
OpStatus UserfaultfdMapper::trap_again(const Userfaultfd& uffd, PageSpan block) const {
  int error = 0;
  for (int attempt = 0; attempt < register_attempts_max; ++attempt) {
    error = uffd.register_range(address(block), block.bytes());
    if (error == 0) return OpStatus::ok;
    // A process that ends has no memory left to register. In others Linux reclaims memory, and
    // another attempt succeeds.
    if (uffd.map_resident(address(block), page_size, false).status == OpStatus::process_gone)
      return OpStatus::process_gone;
    std::this_thread::sleep_for(register_pause);
  }
  // Accesses to absent pages would create pages that nothing accounts for. A device process, whose
  // memory Linux may have unmapped, is ended.
  if (end_process_) {
    end_process_();
    return OpStatus::process_gone;
  }
  WHERRY_FAIL("a block cannot be trapped: errno {}", error);
}

OpResult UserfaultfdMapper::write_protect(PageSpan span, FaultSlot*) {
  return with_uffd(
      [&](const Userfaultfd& uffd) { return uffd.write_protect(address(span), span.bytes()); });
}

OpResult UserfaultfdMapper::write_unprotect(PageSpan span, FaultSlot*) {
  return with_uffd(
      [&](const Userfaultfd& uffd) { return uffd.write_unprotect(address(span), span.bytes()); });
}

OpResult UserfaultfdMapper::remove_entries(PageSpan block) {
  return with_uffd([&](const Userfaultfd&) REQUIRES_SHARED(lock_) -> OpResult {
    if (process_ != 0 || impl::remove_entries(address(block), block.bytes()) != 0)
      return {OpStatus::unsupported, 0};
    return {OpStatus::ok, block.bytes()};
  });
}

OpResult UserfaultfdMapper::split_folios(PageSpan span) {
  return with_uffd([&](const Userfaultfd&) REQUIRES_SHARED(lock_) -> OpResult {
    switch (impl::split_folios(process_, address(span), span.bytes())) {
      case 0:
        return {OpStatus::ok, span.bytes()};
      case ESRCH:
        return {OpStatus::process_gone, 0};
      default:
        return {OpStatus::unsupported, 0};
    }
  });
}

OpResult UserfaultfdMapper::forbid(PageSpan span, PageIndex page) {
  return with_uffd([&](const Userfaultfd& uffd) -> OpResult {
    const PageSpan asked{page, 1};
    OpResult poisoned = uffd.poison(address(asked), page_size);
    if (poisoned.status == OpStatus::occupied) {
      // Where a write-protected page has left, Linux keeps a marker, which counts as a page.
      (void)uffd.write_unprotect(address(span), span.bytes());
      poisoned = uffd.poison(address(asked), page_size);
      // If it is still occupied, it was poisoned before.
      if (poisoned.status == OpStatus::occupied) return {OpStatus::ok, span.bytes()};
    }
    if (!poisoned) return poisoned;
    // Pages after one that was poisoned before may be left out: accesses to them fault.
    for (const PageSpan rest :
         {PageSpan{span.first, page - span.first}, PageSpan{page + 1, span.end() - (page + 1)}})
      if (!rest.empty()) (void)uffd.poison(address(rest), rest.bytes());
    return {OpStatus::ok, span.bytes()};
  });
}

OpResult UserfaultfdMapper::hide(PageSpan span) {
  switch (hide_(address(span), span.bytes())) {
    case 0:
      return {OpStatus::ok, span.bytes()};
    case ENOMEM:
      return {OpStatus::no_memory, 0};
    default:
      return {OpStatus::process_gone, 0};
  }
}

OpResult UserfaultfdMapper::wake(PageSpan span) {
  return with_uffd([&](const Userfaultfd& uffd) { return uffd.wake(address(span), span.bytes()); });
}

}  // namespace wherry::impl
