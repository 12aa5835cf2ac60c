#include "runtime/ordinary_use.h"

#include <optional>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "migration/at_rest.h"
#include "migration/release.h"
#include "os/files/file_io.h"
#include "runtime/block_runs.h"
#include "runtime/memory_events.h"
#include "runtime/retry.h"

namespace wherry::impl {

bool OrdinaryUse::has_pins(PageSpan pages) const {
  return !for_each_run(pages, [&](BlockIndex index, PageRun run) {
    return (parts_.advice.map().pinned(index) & PageMask::of(run)).none();
  });
}

OrdinaryUse::Result OrdinaryUse::free_pages(PageSpan pages) {
  const ReadGuard keeps(parts_.advice.lock);
  if (!parts_.advice.is_managed(pages)) return Result::not_managed;
  if (has_pins(pages)) return Result::pinned;
  const bool freed = retry_incomplete([&] {
    const bool all =
        release_pages(parts_.engine, parts_.effects, parts_.blocks, pages, IfHeld::leave);
    return all ? OpStatus::ok : OpStatus::incomplete;
  });
  return freed ? Result::done : Result::pinned;
}

OrdinaryUse::Result OrdinaryUse::save_pages(PageSpan pages, int fd, std::uint64_t offset) {
  const ReadGuard keeps(parts_.advice.lock);
  if (!parts_.advice.is_managed(pages)) return Result::not_managed;
  const InFlightTransfers& transfers = parts_.engine.transfers();
  std::vector<std::byte> contents(block_size);
  Result result = Result::done;
  parts_.blocks.for_each_used(
      block_of(pages.first), block_of(pages.end() - 1).next(), [&](BlockIndex index, Block& state) {
        if (result != Result::done) return;
        const PageRun run = run_in_block(index, pages);
        PageMask present;
        {
          lock_at_rest(transfers, index, state, run);
          const LockedBlock block(index, state, std::adopt_lock);
          present = PageMask::of(run) - block.state.absent();
          parts_.engine.read(block, run, contents.data());
        }
        // Without the block's lock, because the file may be slow.
        for (const PageRun part : runs_of(present)) {
          const std::size_t bytes = part.count * page_size;
          const std::span<const std::byte> source(
              contents.data() + (part.first - run.first) * page_size, bytes);
          const PageSpan span = span_of(index, part);
          const std::uint64_t place = offset + (span.first - pages.first) * page_size;
          if (write_at(fd, place, source) != static_cast<int>(bytes)) result = Result::failed;
        }
      });
  return result;
}

OrdinaryUse::Result OrdinaryUse::make_private(std::uintptr_t address) {
  const auto first = parts_.layout.page_of(address);
  if (!first || address % page_size != 0) return Result::not_managed;
  std::optional<Allocation> allocation;
  std::optional<Substitute> own;
  {
    // Exclusive: no thread enters advice for the pages after forget().
    const WriteGuard guard(parts_.advice.lock);
    const auto found = parts_.address_space.find(impl::offset_of(*first));
    if (!found || found->pages().first != *first || !found->owner.is_managed())
      return Result::not_managed;
    if (has_pins(found->pages())) return Result::pinned;
    try {
      own.emplace(found->pages().count * page_size, -1, 0);
      // Linux merges the moved parts into one mapping, as it would be without the library, if they
      // have one origin (vm_pgoff). A mapping that has a page keeps its origin when it moves; one
      // that never had a page takes its new place as origin.
      *const_cast<volatile std::byte*>(own->data()) = std::byte{0};
    } catch (const std::system_error&) {
      return Result::no_memory;
    }
    allocation = parts_.address_space.begin_withdrawal(found->offset);
    if (!allocation) return Result::too_small;
    parts_.advice.forget(allocation->pages());
  }
  const PageSpan pages = allocation->pages();
  wait_for_rest(
      parts_.engine.transfers(), pages,
      [&] { return !parts_.address_space.is_in_use(*allocation); }, "a copy never ended");
  for_each_run(pages, [&](BlockIndex index, PageRun run) {
    make_private(index, run, *own);
    return true;
  });
  parts_.page_owners.freed(*allocation);
  record_free(address, *allocation);
  parts_.budget.end_claim(allocation->owner, pages.count);
  parts_.address_space.end_withdrawal(*allocation);
  return Result::done;
}

// Until the private memory is in place, threads that write wait: their faults are put off, because
// the allocation is being withdrawn. Threads that read see the old pages, which do not change any
// more.
void OrdinaryUse::make_private(BlockIndex index, PageRun run, Substitute& own) {
  const Processor host = Processor::host();
  const PageSpan span = span_of(index, run);
  Block& state = parts_.blocks.at(index);
  // Keeps out samples of accesses: a sample drops a page from the page table, which loses no data
  // of shared memory, but those of private memory.
  const LockGuard gate(parts_.gate.lock);
  const ViewSwitcher::Pause pause(parts_.switcher, host);
  const bool done = retry_incomplete([&] {
    lock_at_rest(parts_.engine.transfers(), index, state, run);
    const LockedBlock block(index, state, std::adopt_lock);
    if (const OpStatus status = parts_.engine.freeze(block, run); status != OpStatus::ok)
      return status;
    parts_.engine.read(block, run, own.data());
    if (const int error =
            own.move_to(parts_.layout.address_of(span.first), span.bytes(), Access::write))
      return error == EAGAIN ? OpStatus::incomplete : OpStatus::no_memory;
    (void)parts_.engine.release(block, run);
    // Ends remote mappings: a later change of the host's view would replace the private memory.
    for (const PageRun part : runs_of(PageMask::of(run) & block.state.foreign(host))) {
      block.state.switch_begun(host, part);
      block.state.switched(host, part, host);
    }
    return OpStatus::ok;
  });
  // Linux needs no memory for this but, rarely, a page table.
  WHERRY_CHECK(done, "the memory at {:#x} cannot become private",
               parts_.layout.address_of(span.first));
}

}  // namespace wherry::impl
