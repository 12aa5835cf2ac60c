#include "runtime/module_variables.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "os/files/file_io.h"
#include "os/memory/mapping.h"
#include "os/memory/private_copy.h"
#include "runtime/block_runs.h"
#include "runtime/memory_events.h"

namespace wherry::impl {
namespace {

// Whether the pool's files hold the page, according to Linux.
bool holds(const SparsePoolFile& pool, PageIndex page) {
  const std::uint64_t start = offset_of(page);
  return pool.file().first_data(start, start + page_size) == start;
}

}  // namespace

bool ModuleVariables::adopt_new() {
  ManagedSections search;
  {
    const LockGuard guard(lock_);
    if (!sections_.may_have_new()) return true;
    search = sections_;
  }
  // The lock is not held during the search, which waits for the dynamic loader, and that may be
  // running a constructor that waits for this library. If two threads find the same sections, the
  // second one finds them adopted below.
  const auto sections = search.take_new();
  const LockGuard guard(lock_);
  sections_ = std::move(search);
  for (const ManagedSection& section : sections)
    (void)parts_.devices.load_module(section.module, section.pages.start);
  return adopt_all(sections);
}

ModuleVariables::ShareResult ModuleVariables::share_module(const std::string& name,
                                                           std::uintptr_t address,
                                                           bool all_variables) {
  ManagedSections search;
  {
    const LockGuard guard(lock_);
    search = sections_;
  }
  const auto sections = all_variables ? search.take_module(address) : search.take_new();
  const LockGuard guard(lock_);
  // Before the variables are adopted, because devices copy the module with them from this process.
  if (!parts_.devices.load_module(name, address)) return ShareResult::refused;
  sections_ = std::move(search);
  return adopt_all(sections) ? ShareResult::done : ShareResult::no_space;
}

bool ModuleVariables::adopt_all(const std::vector<ManagedSection>& sections) {
  bool all = true;
  for (const ManagedSection& section : sections) {
    // Another call may have adopted a part of the section.
    for (const AddressRange& part : not_placed(section.pages)) {
      ManagedSection rest{section.module, part, {}};
      for (const AddressRange& variable : section.variables)
        if (variable.start < part.end && part.start < variable.end)
          rest.variables.push_back(
              {std::max(variable.start, part.start), std::min(variable.end, part.end)});
      if (adopt(rest)) continue;
      log_line("no room is left for the managed variables of {}, {} KiB", section.module,
               part.size() >> 10);
      all = false;
    }
  }
  return all;
}

std::vector<AddressRange> ModuleVariables::not_placed(AddressRange range) const {
  std::vector<AddressRange> placed;
  parts_.layout.for_each_placed([&](const PlacedPages& one) {
    placed.push_back({one.address, one.address + one.pages.bytes()});
    return 0;
  });
  std::ranges::sort(placed, {}, &AddressRange::start);
  std::vector<AddressRange> parts;
  for (const AddressRange& one : placed) {
    if (one.end <= range.start || one.start >= range.end) continue;
    if (one.start > range.start) parts.push_back({range.start, one.start});
    range.start = std::min(one.end, range.end);
  }
  if (!range.empty()) parts.push_back(range);
  return parts;
}

bool ModuleVariables::adopt(const ManagedSection& section) {
  const LockGuard guard(parts_.devices.lock);
  const auto placed = parts_.layout.find_place(section.pages.start, section.pages.size());
  if (!placed) return false;
  const std::uint64_t pages = placed->pages.count;
  const BlockIndex first = block_of(placed->pages.first);
  const BlockIndex last = block_of(placed->pages.end() - 1);
  if (!parts_.blocks.prepare(first, last.value - first.value + 1)) return false;
  if (!parts_.budget.claim_managed(pages)) return false;
  if (!fill_host_pool(*placed)) {
    parts_.budget.end_claim({}, pages);
    return false;
  }
  try {
    map_on_host(*placed);
  } catch (...) {
    leave_host_pool(*placed);
    parts_.budget.end_claim({}, pages);
    throw;
  }
  hidden_from_ = placed->pages.first;
  for (const AddressRange& variable : section.variables) {
    const std::uint64_t offset = placed->pages.offset() + (variable.start - placed->address);
    parts_.page_owners.allocated(
        parts_.address_space.adopt(offset, variable.size(), attached_to_all));
  }
  show_everywhere(*placed);
  hidden_from_ = no_page;
  record_variables(section, *placed);
  record(section);
  return true;
}

void ModuleVariables::record(const ManagedSection& section) {
  for (const AddressRange& variable : section.variables) {
    MemoryRecord record;
    record.base = record.device_base = variable.start;
    record.bytes = variable.size();
    record.map_in_blocks();
    record.sync_memops = true;
    record.variable = true;
    parts_.records.insert(record);
  }
}

bool ModuleVariables::fill_host_pool(const PlacedPages& placed) {
  const Processor host = Processor::host();
  Reservation reservation;
  if (!reservation.try_grow(parts_.engine.at(host).capacity, placed.pages.count)) return false;
  const bool filled = for_each_run(placed.pages, [&](BlockIndex index, PageRun run) {
    const PageSpan span = span_of(index, run);
    const auto* contents = reinterpret_cast<const std::byte*>(placed.address) +
                           (span.first - placed.pages.first) * page_size;
    const LockedBlock block(index, parts_.blocks.at(index));
    return parts_.engine.fill(block, run, host, reservation, contents).status == OpStatus::ok;
  });
  if (!filled) leave_host_pool(placed);
  return filled;
}

void ModuleVariables::leave_host_pool(const PlacedPages& placed) {
  for_each_run(placed.pages, [&](BlockIndex index, PageRun run) {
    const LockedBlock block(index, parts_.blocks.at(index));
    (void)parts_.engine.release(block, run);
    return true;
  });
}

void ModuleVariables::map_on_host(const PlacedPages& placed) {
  const std::size_t bytes = placed.pages.bytes();
  if (const int error = map_file_range(
          placed.address, bytes, parts_.pools.host().file().fd_at(placed.pages.offset()),
          placed.pages.offset(), Access::write, parts_.pools.views_permit_huge_pages()))
    throw_errno(error, "cannot map managed variables");
  if (const int error = leave_out_of_core_dumps(placed.address, bytes))
    throw_errno(error, "cannot map managed variables");
  // Enters all pages in the page table now, so that few accesses fault before the trap knows the
  // place.
  (void)populate({reinterpret_cast<std::byte*>(placed.address), bytes});
}

void ModuleVariables::show_everywhere(const PlacedPages& placed) {
  for_each_run(placed.pages, [&](BlockIndex index, PageRun run) {
    Block& block = parts_.blocks.at(index);
    const LockGuard guard(block.lock);
    block.mapped(Processor::host(), run, /*writable=*/true);
    return true;
  });
  parts_.layout.place(placed);
  parts_.trap.attach_host_pages(placed);
  parts_.devices.show(placed);
}

void ModuleVariables::copy_in_forked_child() {
  parts_.layout.for_each_placed([&](const PlacedPages& placed) {
    const std::size_t bytes = placed.pages.bytes();
    if (forbid_range({placed.address, placed.address + bytes}) != 0 ||
        set_access(placed.address, bytes, Access::write) != 0)
      return 0;
    for (std::uint64_t i = 0; i < placed.pages.count; ++i)
      read_from_any_pool(placed.pages.first + i,
                         {reinterpret_cast<std::byte*>(placed.address) + i * page_size, page_size});
    return 0;
  });
}

void ModuleVariables::read_from_any_pool(PageIndex page, std::span<std::byte> into) const {
  // The child's page state is as the fork found it, perhaps half changed, and the parent goes on
  // moving pages. So the child asks the files, and looks again if the page has moved meanwhile.
  constexpr int looks = 100;
  for (int look = 0; look < looks; ++look)
    for (const auto& pool : parts_.pools.all())
      if (holds(*pool, page) &&
          read_at(pool->file().fd_at(offset_of(page)), offset_of(page), into) ==
              static_cast<int>(page_size) &&
          holds(*pool, page))
        return;
}

}  // namespace wherry::impl
