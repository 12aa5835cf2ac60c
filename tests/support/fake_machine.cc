#include "support/fake_machine.h"

#include <fmt/format.h>

#include "base/check.h"

namespace wherry::test {

OpResult FakeProcessor::each(const char* operation, PageSpan span,
                             const std::function<OpStatus(std::uint64_t page)>& step) {
  machine_.log.push_back(fmt::format("{} {}: {}+{}", operation, id_.index, span.first, span.count));
  if (machine_.before) machine_.before(operation, id_, span);
  if (dead_) return {OpStatus::process_gone, 0};
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
    // As the kernel has it: progress first, the reason next time.
    status = done == 0 ? answer : OpStatus::incomplete;
    break;
  }
  if (planned == OpStatus::process_gone) die();
  machine_.check_coherent(span);
  return {status, done * page_size};
}

OpResult FakeProcessor::copy_protected(PageSpan span, const std::byte* source) {
  return each("copy", span, [&](std::uint64_t page) {
    if (holds(page)) return OpStatus::occupied;
    std::memcpy(file_.data() + page * page_size, source + (page - span.first) * page_size,
                page_size);
    held_.insert(page);
    table_[page] = false;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::zero(PageSpan span) {
  return each("zero", span, [&](std::uint64_t page) {
    if (holds(page)) return OpStatus::occupied;
    std::memset(file_.data() + page * page_size, 0, page_size);
    held_.insert(page);
    table_[page] = true;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::map_resident(PageSpan span) {
  return each("map", span, [&](std::uint64_t page) {
    if (maps(page)) return OpStatus::occupied;
    if (!holds(page)) return OpStatus::absent;
    table_[page] = true;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::write_protect(PageSpan span) {
  return each("protect", span, [&](std::uint64_t page) {
    if (maps(page)) table_[page] = false;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::write_unprotect(PageSpan span) {
  return each("unprotect", span, [&](std::uint64_t page) {
    if (maps(page)) table_[page] = true;
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::forbid(PageSpan span) {
  return each("forbid", span, [&](std::uint64_t page) {
    forbidden_.insert(page);
    return OpStatus::ok;
  });
}

OpResult FakeProcessor::wake(PageSpan span) {
  return each("wake", span, [](std::uint64_t) { return OpStatus::ok; });
}

int FakeProcessor::punch(PageSpan span) {
  machine_.log.push_back(fmt::format("punch {}: {}+{}", id_.index, span.first, span.count));
  if (machine_.before) machine_.before("punch", id_, span);
  for (std::uint64_t page = span.first; page < span.end(); ++page) {
    held_.erase(page);
    table_.erase(page);
  }
  machine_.check_coherent(span);
  return 0;
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

void FakeMachine::check_coherent(PageSpan span) const {
  for (std::uint64_t page = span.first; page < span.end(); ++page) {
    int mapped = 0;
    bool writable = false;
    for (const auto& processor : processors_) {
      mapped += processor->maps(page) ? 1 : 0;
      writable = writable || processor->maps_writable(page);
    }
    WHERRY_CHECK(mapped <= 1 || !writable, "page {} is writable in one of {} places", page, mapped);
  }
}

}  // namespace wherry::test
