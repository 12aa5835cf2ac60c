// The runtime's part in variables that are managed memory: their pages come to the host's pool with
// their contents, and then every process sees its own pool where they are.
#include <algorithm>
#include <span>

#include "base/log.h"
#include "migration/at_rest.h"
#include "os/files/file_io.h"
#include "os/memory/mapping.h"
#include "os/memory/private_copy.h"
#include "runtime/runtime.h"
#include "wherry/cuda.h"

namespace wherry::impl {
namespace {

// Calls f(number, run) for each block's share of the pages; stops where f says false.
template <typename F>
bool for_each_run(PageSpan pages, F f) {
  for (PageSpan left = pages; !left.empty();) {
    const std::uint64_t number = block_of(left.first);
    const PageRun run = run_in_block(number, left);
    if (!f(number, run)) return false;
    left = {left.first + run.count, left.count - run.count};
  }
  return true;
}

bool holds(const MemoryPoolFile& pool, std::uint64_t page) {
  const std::uint64_t start = page * page_size;
  return pool.file().first_data(start, start + page_size) == start;
}

}  // namespace

bool Runtime::fill_host_pool(const PlacedPages& placed) {
  const Processor host = Processor::host();
  Reservation reservation;
  if (!reservation.try_grow(engine_->at(host).capacity, placed.pages.count)) return false;
  const bool filled = for_each_run(placed.pages, [&](std::uint64_t number, PageRun run) {
    const PageSpan span = span_of(number, run);
    const auto* contents = reinterpret_cast<const std::byte*>(placed.address) +
                           (span.first - placed.pages.first) * page_size;
    Block& block = blocks_.at(number);
    const LockGuard guard(block.lock);
    return engine_->fill(block, number, run, host, reservation, contents).status == OpStatus::ok;
  });
  if (!filled) leave_host_pool(placed);
  return filled;
}

void Runtime::leave_host_pool(const PlacedPages& placed) {
  for_each_run(placed.pages, [&](std::uint64_t number, PageRun run) {
    Block& block = blocks_.at(number);
    const LockGuard guard(block.lock);
    engine_->release(block, number, run);
    return true;
  });
}

void Runtime::show_on_host(const PlacedPages& placed) {
  const std::size_t bytes = placed.pages.bytes();
  if (const int error = map_file_part(placed.address, bytes, pools_.front()->file().fd(),
                                      placed.pages.offset(), Access::write, pools_map_huge_pages()))
    throw_errno(error, "cannot map managed variables");
  if (const int error = leave_out_of_core_dumps(placed.address, bytes))
    throw_errno(error, "cannot map managed variables");
  // Every page is there and has an entry, so that hardly anybody faults before others know of the
  // place.
  (void)populate({reinterpret_cast<std::byte*>(placed.address), bytes});
}

void Runtime::show_everywhere(const PlacedPages& placed) {
  for_each_run(placed.pages, [&](std::uint64_t number, PageRun run) {
    Block& block = blocks_.at(number);
    const LockGuard guard(block.lock);
    block.mapped(Processor::host(), run, /*writable=*/true);
    return true;
  });
  arena_.layout().place(placed);
  trap_->attach_host_pages(placed);
  for (int device = 0; device < device_count(); ++device) {
    const auto& process = part(Processor::device(device)).process;
    // Devices that have not been started yet, or are started anew, find the pages in the layout.
    const int error = process ? process->place(placed) : ESRCH;
    if (error == 0 || error == ESRCH) continue;
    log_line("device process {} cannot have managed variables (errno {}): it is ended",
             process->pid(), error);
    process->stop();
  }
}

void Runtime::copy_variables_in_forked_child() {
  layout().for_each_placed([&](const PlacedPages& placed) {
    const std::size_t bytes = placed.pages.bytes();
    if (forbid_range({placed.address, placed.address + bytes}) != 0 ||
        set_access(placed.address, bytes, Access::write) != 0)
      return 0;
    for (std::uint64_t i = 0; i < placed.pages.count; ++i)
      read_wherever_it_is(
          placed.pages.first + i,
          {reinterpret_cast<std::byte*>(placed.address) + i * page_size, page_size});
    return 0;
  });
}

void Runtime::read_wherever_it_is(std::uint64_t page, std::span<std::byte> into) {
  // The books are as the fork found them, perhaps half written, and the parent goes on moving
  // pages: the files say where it is.
  constexpr int looks = 100;
  for (int look = 0; look < looks; ++look)
    for (const auto& pool : pools_)
      if (holds(*pool, page) &&
          read_at(pool->file().fd(), page * page_size, into) == static_cast<int>(page_size) &&
          holds(*pool, page))
        return;
}

bool Runtime::adopt_new_variables() {
  ManagedSections search;
  {
    const LockGuard guard(sections_lock_);
    if (!sections_.may_have_new()) return true;
    search = sections_;
  }
  // Not under the lock: it waits for the loader, where a constructor may run that waits for us. Who
  // finds the same at the same time finds it adopted afterwards.
  const auto sections = search.take_new();
  const LockGuard guard(sections_lock_);
  sections_ = std::move(search);
  for (const ManagedSection& section : sections)
    (void)have_module_in_devices(section.module, section.pages.start);
  return adopt_all(sections);
}

Runtime::ModuleResult Runtime::share_module(const std::string& name, std::uintptr_t address,
                                            bool all_variables) {
  ManagedSections search;
  {
    const LockGuard guard(sections_lock_);
    search = sections_;
  }
  const auto sections = all_variables ? search.take_module(address) : search.take_new();
  const LockGuard guard(sections_lock_);
  // With its contents of now, also those that are about to be shared.
  if (!have_module_in_devices(name, address)) return ModuleResult::refused;
  sections_ = std::move(search);
  return adopt_all(sections) ? ModuleResult::done : ModuleResult::no_room;
}

bool Runtime::adopt_all(const std::vector<ManagedSection>& sections) {
  bool all = true;
  for (const ManagedSection& section : sections) {
    // Another call may have found a part of it before.
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

std::vector<AddressRange> Runtime::not_placed(AddressRange range) const {
  std::vector<AddressRange> placed;
  layout().for_each_placed([&](const PlacedPages& one) {
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

bool Runtime::have_module_in_devices(const std::string& module, std::uintptr_t address) {
  const LockGuard guard(arena_lock_);
  bool all = true;
  for (int device = 0; device < device_count(); ++device) {
    const auto& process = part(Processor::device(device)).process;
    if (!process) continue;  // it will inherit the module
    const auto why = process->adopt_module(address);
    if (!why) continue;
    log_line("{} cannot run on device {} before that is reset: {}", module, device, *why);
    all = false;
  }
  return all;
}

bool Runtime::adopt(const ManagedSection& section) {
  const LockGuard guard(arena_lock_);
  const auto placed = layout().find_room(section.pages.start, section.pages.size());
  if (!placed) return false;
  const std::uint64_t pages = placed->pages.count;
  const std::uint64_t first = block_of(placed->pages.first);
  if (!blocks_.prepare(first, block_of(placed->pages.end() - 1) - first + 1)) return false;
  if (managed_pages_.fetch_add(pages) + pages > managed_pages_max() || !fill_host_pool(*placed)) {
    managed_pages_.fetch_sub(pages);
    return false;
  }
  try {
    show_on_host(*placed);
  } catch (...) {
    leave_host_pool(*placed);
    managed_pages_.fetch_sub(pages);
    throw;
  }
  hidden_from_ = placed->pages.first;
  for (const AddressRange& variable : section.variables) {
    const std::uint64_t offset = placed->pages.offset() + (variable.start - placed->address);
    page_owners_.allocated(address_space_.adopt(offset, variable.size(), CU_MEM_ATTACH_GLOBAL));
  }
  show_everywhere(*placed);
  hidden_from_ = ~std::uint64_t{0};
  record_variables(section, *placed);
  for (const AddressRange& variable : section.variables) {
    MemoryRecord record;
    record.base = record.device_base = variable.start;
    record.bytes = variable.size();
    record.map_in_blocks();
    record.sync_memops = true;
    record.variable = true;
    memory_.insert(record);
  }
  return true;
}

}  // namespace wherry::impl
