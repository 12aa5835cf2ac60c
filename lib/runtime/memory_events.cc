#include "runtime/memory_events.h"

#include "base/clock.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

AdviceDetail detail_of(AdviceChange::Kind kind) {
  using Kind = AdviceChange::Kind;
  switch (kind) {
    case Kind::set_read_mostly:
      return AdviceDetail::set_read_mostly;
    case Kind::unset_read_mostly:
      return AdviceDetail::unset_read_mostly;
    case Kind::set_preferred:
      return AdviceDetail::set_preferred_location;
    case Kind::unset_preferred:
      return AdviceDetail::unset_preferred_location;
    case Kind::set_accessed_by:
      return AdviceDetail::set_accessed_by;
    case Kind::unset_accessed_by:
      return AdviceDetail::unset_accessed_by;
    case Kind::pinned:
    case Kind::unpinned:
      break;
  }
  return AdviceDetail{};  // pinning and unpinning are kinds of events, not of advice
}

EventKind kind_of(AdviceChange::Kind kind) {
  if (kind == AdviceChange::Kind::pinned) return EventKind::pin;
  return kind == AdviceChange::Kind::unpinned ? EventKind::unpin : EventKind::advice;
}

void record_location(const ArenaLayout& layout, PageSpan pages, EventKind kind, AdviceDetail detail,
                     Location location) {
  if (!is_recorded(kind)) return;
  const bool on_node = location.kind == Location::Kind::host_node;
  record_event({.time_ns = now_ns(),
                .address = layout.address_of(pages.first),
                .bytes = pages.bytes(),
                .value = on_node ? static_cast<std::uint32_t>(location.id) + 1 : 0,
                .kind = kind,
                .cause = EventCause::advice,
                .detail = kind == EventKind::advice ? code_of(detail) : std::uint8_t{0},
                .destination = location.is_none() ? TraceEvent::no_processor
                                                  : index_of(location.processor())});
}

}  // namespace

void record_allocation(const ArenaLayout& layout, const Allocation& allocation) {
  if (!is_recorded(EventKind::allocation)) return;
  const auto device = allocation.owner.device;
  record_event({.time_ns = now_ns(),
                .address = layout.address_of(allocation.pages().first),
                .bytes = allocation.pages().bytes(),
                .kind = EventKind::allocation,
                .detail = code_of(device ? AllocationDetail::device : AllocationDetail::managed),
                .destination = device ? index_of(*device) : TraceEvent::no_processor});
}

void record_free(std::uintptr_t address, const Allocation& allocation) {
  if (!is_recorded(EventKind::free)) return;
  record_event({.time_ns = now_ns(),
                .address = address,
                .bytes = allocation.pages().bytes(),
                .kind = EventKind::free});
}

void record_variables(const ManagedSection& section, const PlacedPages& placed) {
  const std::uint64_t now = now_ns();
  for (const AddressRange& variable : section.variables)
    if (is_recorded(EventKind::allocation))
      record_event({.time_ns = now,
                    .address = variable.start,
                    .bytes = round_up(variable.size(), page_size),
                    .kind = EventKind::allocation,
                    .detail = code_of(AllocationDetail::variable)});
  if (is_recorded(EventKind::populate))
    record_event({.time_ns = now,
                  .address = placed.address,
                  .bytes = placed.pages.bytes(),
                  .kind = EventKind::populate,
                  .cause = EventCause::creation,
                  .destination = index_of(Processor::host())});
}

void record_advice(const ArenaLayout& layout, PageSpan pages, const AdviceChange& change) {
  record_location(layout, pages, kind_of(change.kind), detail_of(change.kind), change.location);
}

void record_prefetch(const ArenaLayout& layout, PageSpan pages, Location destination) {
  record_location(layout, pages, EventKind::advice, AdviceDetail::prefetch, destination);
}

}  // namespace wherry::impl
