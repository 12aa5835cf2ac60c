#include "support/fake_machine.h"

#include <fmt/core.h>

#include <cerrno>

#include "base/check.h"

namespace wherry::test {

OpResult FakeProcessor::each(const char* operation, PageSpan span,
                             const std::function<OpStatus(PageIndex page)>& step, bool by_process) {
  machine_.begin(operation, id_, span);
  const std::lock_guard guard(machine_.lock);
  if (by_process && dead_) return {OpStatus::process_gone, 0};
  std::uint64_t limit = span.count;
  OpStatus planned = OpStatus::ok;
  for (auto failure = machine_.failures.begin(); failure != machine_.failures.end(); ++failure) {
    if (failure->operation != operation) continue;
    limit = std::min(limit, failure->pages);
    planned = failure->status;
    machine_.failures.erase(failure);
    break;
  }
  std::uint64_t done = 0;
  OpStatus status = planned;
  for (; done < limit; ++done) {
    const OpStatus answer = step(span.first + done);
    if (answer == OpStatus::ok) continue;
    // Like Linux: first reports the progress, and the error in the next call.
    status = done == 0 ? answer : OpStatus::incomplete;
    break;
  }
  if (planned == OpStatus::process_gone) die();
  machine_.check_coherent(span);
  return {status, done * page_size};
}

OpResult FakeProcessor::copy_protected(PageSpan span, const std::byte* source, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  return each("copy", span, [&](PageIndex page) {
    FakeProcessor& owner = machine_.at(view(page));
    if (owner.holds(page)) return OpStatus::occupied;
    owner.put(page, source + (page - span.first) * page_size);
    table_[page] = false;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::zero(PageSpan span, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  return each("zero", span, [&](PageIndex page) {
    FakeProcessor& owner = machine_.at(view(page));
    if (owner.holds(page)) return OpStatus::occupied;
    owner.put(page, nullptr);
    table_[page] = true;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::fill(PageSpan span, const std::byte* source) {
  return each(
      "fill", span,
      [&](PageIndex page) {
        if (holds(page)) return OpStatus::occupied;
        put(page, source == nullptr ? nullptr : source + (page - span.first) * page_size);
        return OpStatus::ok;
      },
      /*by_process=*/false);
}

OpResult FakeProcessor::fill_zero(PageSpan span) {
  return fill(span, nullptr);
}

void FakeProcessor::move_to_node(PageSpan span, int node) {
  machine_.begin(fmt::format("node {} of", node), id_, span);
}

OpResult FakeProcessor::map_resident(PageSpan span, bool write_protected, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  return each("map", span, [&](PageIndex page) {
    if (maps(page)) return OpStatus::occupied;
    if (!machine_.at(view(page)).holds(page)) return OpStatus::absent;
    if (write_protected && !machine_.may_enter_protected) return OpStatus::unsupported;
    table_[page] = !write_protected;
    return OpStatus::ok;
  });
}

// A planned failure's `pages` is how many pages Linux unmaps before it refuses to merge the block.
int FakeProcessor::merge(PageSpan block) {
  const OpResult merged = each(
      "merge", block,
      [&](PageIndex page) {
        machine_.unmap_from(id_.index, page, /*may_be_mapped=*/true);
        return OpStatus::ok;
      },
      /*by_process=*/false);
  return merged ? 0 : EAGAIN;
}

// Like Linux before 6.14 with a userfaultfd: where the block has small entries, no huge entry can
// take their place.
OpResult FakeProcessor::map_whole(PageSpan block, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  if (maps(block.first) && punch_unmaps()) return {OpStatus::incomplete, 0};
  return each("map whole", block, [&](PageIndex page) {
    if (!machine_.at(view(page)).holds(page)) return OpStatus::absent;
    table_[page] = true;
    return OpStatus::ok;
  });
}

bool FakeProcessor::punch_unmaps() const {
  return machine_.punch_unmaps;
}

OpResult FakeProcessor::unmap(PageSpan span, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  return each("unmap", span, [&](PageIndex page) {
    unmap(page);
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::write_protect(PageSpan span, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  return each("protect", span, [&](PageIndex page) {
    if (maps(page)) table_[page] = false;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::write_unprotect(PageSpan span, FaultSlot* waiter) {
  machine_.note_waiter(waiter);
  return each("unprotect", span, [&](PageIndex page) {
    if (maps(page)) table_[page] = true;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::remove_entries(PageSpan block) {
  if (!id_.is_host()) return {OpStatus::unsupported, 0};
  return each("remove", block, [&](PageIndex page) {
    unmap(page);
    return OpStatus::ok;
  });
}

// Like Linux, splits a huge page only if no other page table maps it, and nobody holds it.
OpResult FakeProcessor::split_folios(PageSpan span) {
  machine_.begin("split through", id_, span);
  if (!machine_.may_split_of_others) return {OpStatus::unsupported, 0};
  const BlockIndex block = block_of(span.first);
  FakeProcessor& owner = machine_.at(view(span.first));
  bool is_only_mapper = maps(span.first);
  for (const ProcessorMemory* const other : machine_.memories())
    is_only_mapper &= other->id == id_ || !machine_.at(other->id.index).maps_any(block);
  if (!is_only_mapper || owner.held_outside_.contains(block.value)) return {OpStatus::ok, 0};
  owner.was_split(block_span(block));
  table_.clear();
  return {OpStatus::ok, span.bytes()};
}

OpResult FakeProcessor::forbid(PageSpan span, PageIndex) {
  return each("forbid", span, [&](PageIndex page) {
    forbidden_.insert(page);
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::hide(PageSpan span) {
  return each("hide", span, [&](PageIndex page) {
    forbidden_.insert(page);
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::wake(PageSpan span) {
  return each("wake", span, [](PageIndex) { return OpStatus::ok; });
}

int FakeProcessor::punch(PageSpan span) {
  // Linux may fill a part of a huge page with zeros instead of freeing it.
  const BlockIndex block = block_of(span.first);
  WHERRY_CHECK(span.count == pages_per_block || !is_huge(block),
               "a part of a huge page is punched");
  was_split(block_span(block));
  machine_.begin("punch", id_, span);
  const std::lock_guard guard(machine_.lock);
  for (PageIndex page = span.first; page < span.end(); ++page) {
    held_.erase(page);
    machine_.unmap_from(id_.index, page, machine_.punch_unmaps);
  }
  machine_.check_coherent(span);
  return 0;
}

Folios FakeProcessor::folios(PageSpan span, const PageMask&) {
  return span.count != pages_per_block && is_huge(block_of(span.first)) ? Folios::huge_page
                                                                        : Folios::apart;
}

OpStatus FakeProcessor::split(PageSpan span) {
  machine_.begin("split", id_, span);
  const BlockIndex block = block_of(span.first);
  if (held_outside_.contains(block.value)) return OpStatus::held;
  was_split(block_span(block));
  const std::lock_guard guard(machine_.lock);
  for (PageIndex page = block_span(block).first; page < block_span(block).end(); ++page)
    machine_.unmap_from(id_.index, page, /*may_be_mapped=*/true);
  return OpStatus::ok;
}

OpStatus FakeProcessor::rebuild(PageSpan span, const PageMask& resident) {
  machine_.begin("rebuild", id_, span);
  was_split(span);
  const std::lock_guard guard(machine_.lock);
  for (PageIndex page = span.first; page < span.end(); ++page) {
    if (!resident.test(page_in_block(page))) held_.erase(page);
    machine_.unmap_from(id_.index, page, machine_.punch_unmaps);
  }
  return OpStatus::ok;
}

int FakeProcessor::change_view(PageSpan span, Processor owner) {
  machine_.begin(fmt::format("view {} of", owner.index), id_, span);
  const std::lock_guard guard(machine_.lock);
  if (dead_) return ESRCH;
  if (machine_.view_error != 0) return machine_.view_error;
  for (PageIndex page = span.first; page < span.end(); ++page) {
    table_.erase(page);
    views_[page] = owner.index;
  }
  return 0;
}

int FakeProcessor::forget_entries(std::span<const PageSpan> runs) {
  for (const PageSpan& run : runs) {
    machine_.begin("forget", id_, run);
    const std::lock_guard guard(machine_.lock);
    if (dead_) return ESRCH;
    for (PageIndex page = run.first; page < run.end(); ++page) unmap(page);
  }
  return 0;
}

std::uint64_t FakeProcessor::count_mappings() {
  return machine_.mappings;
}

void FakeProcessor::put(PageIndex page, const std::byte* data) {
  std::byte* const place = file_.data() + offset_of(page);
  if (data == nullptr)
    std::memset(place, 0, page_size);
  else
    std::memcpy(place, data, page_size);
  held_.insert(page);
}

FakeMachine::FakeMachine(int processors, std::uint64_t blocks, std::uint64_t device_capacity_pages)
    : blocks_(blocks, processors) {
  for (int p = 0; p < processors; ++p) {
    const std::uint64_t pages = blocks * pages_per_block;
    processors_.push_back(std::make_unique<FakeProcessor>(*this, Processor{p}, pages));
    memories_.push_back(std::make_unique<ProcessorMemory>(
        Processor{p}, at(p), at(p), p == 0 ? pages : device_capacity_pages, blocks_));
    pointers_.push_back(memories_.back().get());
  }
}

void FakeMachine::begin(const std::string& operation, Processor p, PageSpan span) {
  {
    const std::lock_guard guard(lock);
    log.push_back(fmt::format("{} {}: {}+{}", operation, p.index, span.first.value, span.count));
  }
  if (before) before(operation.substr(0, operation.find(' ')), p, span);
}

void FakeMachine::note_waiter(FaultSlot* waiter) {
  const std::lock_guard guard(lock);
  waiters.insert(waiter);
}

std::vector<ViewChanger*> FakeMachine::changers() {
  std::vector<ViewChanger*> changers;
  for (const auto& processor : processors_) changers.push_back(processor.get());
  return changers;
}

void FakeMachine::unmap_from(int owner, PageIndex page, bool may_be_mapped) {
  for (const auto& processor : processors_) {
    if (processor->view(page) != owner) continue;
    WHERRY_CHECK(may_be_mapped || !processor->maps(page),
                 "page {} leaves the pool of processor {} while a processor can access it",
                 page.value, owner);
    processor->unmap(page);
  }
}

void FakeMachine::check_coherent(PageSpan span) const {
  for (PageIndex page = span.first; page < span.end(); ++page) {
    std::set<int> shown;  // the processors whose copies are mapped
    bool writable = false;
    for (const auto& processor : processors_) {
      if (processor->maps(page)) shown.insert(processor->view(page));
      writable = writable || processor->maps_writable(page);
    }
    WHERRY_CHECK(shown.size() <= 1 || !writable, "page {} has {} mapped copies, and is writable",
                 page.value, shown.size());
  }
}

}  // namespace wherry::test
