// How each named memory of a trace was used: faults and page moves by processor, as far as findings
// and tables need them. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/processor.h"
#include "page_places.h"
#include "trace/event.h"

namespace wherry::report {

// What one processor did with one memory.
struct ProcessorUse {
  std::uint64_t first_touches = 0;  // faults on pages that no processor had
  std::uint64_t reads = 0;          // further faults, by access
  std::uint64_t writes = 0;
  std::uint64_t in_order = 0;  // faults a little after the last one of their thread, by address
  std::uint64_t fault_ns = 0;
  std::uint64_t came_pages = 0;     // different pages that came here from another processor
  std::uint64_t evicted_pages = 0;  // that left for lack of capacity
  std::uint64_t prefetched_pages = 0;

  std::uint64_t faults() const { return first_touches + reads + writes; }
};

struct MemoryUse {
  std::uint64_t bytes = 0;  // of all ranges that have the name at the end
  std::array<ProcessorUse, impl::max_processors> by;
  // Pages that moved because of accesses, by source and destination.
  std::array<std::array<std::uint64_t, impl::max_processors>, impl::max_processors> moved_pages{};
  std::uint64_t all_moved_pages = 0;  // for any reason, also evictions and prefetches
  std::uint64_t copied_pages = 0;
  std::uint64_t thrashings = 0;
  std::uint64_t throttled_ns = 0;
  // How often pages could not move because a system call or another process held them, and the sum
  // of these pages.
  std::uint64_t holds = 0;
  std::uint64_t held_pages = 0;
  std::uint32_t advised = 0;  // a bit for each impl::AdviceDetail that the program gave

  std::uint64_t faults() const;
  std::uint64_t fault_ns() const;
  bool was_advised(impl::AdviceDetail advice) const {
    return (advised >> static_cast<unsigned>(advice) & 1) != 0;
  }
};

class MemoryUses {
 public:
  explicit MemoryUses(std::uint64_t page_bytes) : page_bytes_(page_bytes) {}

  // `name`: of the event's memory; may be empty. `place`: the state of the event's page before the
  // event. To be called in order of time.
  void add(const impl::TraceEvent& event, std::string_view name, PageState place);
  // One of the event's pages came to a processor for the first time.
  void add_new_page(const impl::TraceEvent& event);

  using ByName = std::map<std::string, MemoryUse, std::less<>>;
  const ByName& all() const { return uses_; }
  ByName take() { return std::move(uses_); }

 private:
  // The last addresses at which threads of a processor had faults in one memory.
  using Streams = std::array<std::uint64_t, 16>;

  void add_fault(const impl::TraceEvent& event, PageState place);
  void add_migration(const impl::TraceEvent& event);

  const std::uint64_t page_bytes_;
  ByName uses_;
  MemoryUse* use_ = nullptr;  // of the last event
  std::string_view name_;     // its name, in uses_
  std::map<std::pair<const MemoryUse*, std::int8_t>, Streams> streams_;
};

}  // namespace wherry::report
