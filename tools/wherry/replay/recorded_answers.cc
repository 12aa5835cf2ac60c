#include "replay/recorded_answers.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/page_mask.h"
#include "pages/minimum_residency.h"

namespace wherry::replay {
namespace {

using impl::EventCause;
using impl::EventKind;
using impl::TraceEvent;

// Whether pages moved or were mapped for a thread that waits for them.
bool is_answer(const TraceEvent& event) {
  if (event.destination < 0) return false;
  switch (event.kind) {
    case EventKind::populate:
    case EventKind::migration:
    case EventKind::duplicate:
      return event.cause == EventCause::fault || event.cause == EventCause::sample ||
             event.cause == EventCause::speculative_prefetch ||
             event.cause == EventCause::thrash_pin;
    case EventKind::remote_map:
      return true;
    default:
      return false;
  }
}

bool makes_room(const TraceEvent& event) {
  return event.kind == EventKind::eviction && event.source > 0 &&
         event.detail == impl::code_of(impl::EvictionDetail::needed);
}

unsigned page_of(const TraceEvent& event) {
  return impl::page_in_block(impl::page_at_offset(event.address));
}

// The library's events concern one block each, but a file may contain any values.
impl::PageRun run_of(const TraceEvent& event) {
  const unsigned first = page_of(event);
  const std::uint64_t pages = event.bytes / impl::page_size;
  return {first,
          static_cast<unsigned>(std::min<std::uint64_t>(pages, impl::pages_per_block - first))};
}

std::uint64_t end_of(const TraceEvent& event) {
  return event.time_ns + event.duration_ns;
}

}  // namespace

bool RecordedAnswers::concerns(const TraceEvent& event) {
  return is_answer(event) || makes_room(event) || event.kind == EventKind::throttle_end;
}

void RecordedAnswers::note_times(const Open& fault) {
  const auto length = [](std::uint64_t begin_ns, std::uint64_t end_ns) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(
        end_ns - std::min(begin_ns, end_ns), std::numeric_limits<std::uint32_t>::max()));
  };
  RecordedAnswer& answer = answers_[fault.number];
  answer.wait_ns = length(fault.free_ns, fault.served_ns);
  answer.ns = std::max(length(std::max(fault.served_ns, fault.free_ns), fault.end_ns), 1u);
}

void RecordedAnswers::add_fault(const TraceEvent& event, impl::Processor table, std::uint32_t block,
                                std::uint32_t number) {
  open_.resize(std::max<std::size_t>(open_.size(), block + 1));
  OpenFaults& faults = open_[block];
  Open fault{.number = number,
             .thread = event.thread,
             .page = page_of(event),
             .faulting_processor = event.destination,
             .table = impl::index_of(table),
             .begin_ns = event.time_ns,
             .end_ns = end_of(event),
             .free_ns = event.time_ns};
  // The faults of a block are handled one at a time: this one waited for those that ended before.
  for (const Open& other : faults)
    if (other.end_ns <= fault.end_ns) fault.free_ns = std::max(fault.free_ns, other.end_ns);
  // Replaces a fault that has been handled already, if there is one.
  *std::ranges::min_element(faults, {}, &Open::end_ns) = fault;
  answers_.resize(std::max<std::size_t>(answers_.size(), number + 1));
  note_times(fault);
}

std::uint64_t RecordedAnswers::woken(std::uint32_t number, std::uint32_t block,
                                     std::uint64_t time_ns) {
  OpenFaults& faults = open_[block];
  const auto fault = std::ranges::find(faults, number, &Open::number);
  if (fault == faults.end()) return time_ns;
  // The thread was woken by the handler of another fault of this block that ended after this fault
  // began.
  fault->end_ns = time_ns;
  for (const Open& other : faults)
    if (other.end_ns > fault->begin_ns) fault->end_ns = std::min(fault->end_ns, other.end_ns);
  note_times(*fault);
  return fault->end_ns;
}

std::optional<RecordedAnswers::Taking> RecordedAnswers::taking(std::uint32_t block, unsigned page,
                                                               std::int8_t faulting_processor,
                                                               std::uint64_t time_ns) const {
  if (block >= open_.size()) return std::nullopt;
  for (const Open& fault : open_[block]) {
    if (fault.answered_ns == 0 || fault.end_ns <= time_ns ||
        fault.faulting_processor == faulting_processor)
      continue;
    const RecordedAnswer& answer = answers_[fault.number];
    if (answer.arrivals.kind == EventKind::migration && page >= answer.first && page < answer.end)
      return Taking{fault.number, fault.answered_ns};
  }
  return std::nullopt;
}

void RecordedAnswers::add(const TraceEvent& event, std::optional<std::uint32_t> block) {
  if (makes_room(event)) {
    std::uint64_t& end_ns = made_room_[static_cast<std::size_t>(event.source)];
    end_ns = std::max(end_ns, end_of(event));
    return;
  }
  if (!block || *block >= open_.size()) return;
  OpenFaults& faults = open_[*block];
  if (event.kind == EventKind::throttle_end) {
    const auto fault = std::ranges::find_if(faults, [&](const Open& open) {
      return open.is_known() && open.thread == event.thread &&
             open.faulting_processor == event.destination && open.end_ns >= end_of(event);
    });
    if (fault == faults.end()) return;
    fault->free_ns = std::max(fault->free_ns, end_of(event));
    note_times(*fault);
  } else if (Open* const fault = answered_by(faults, event)) {
    came(faults, *fault, event);
  }
}

RecordedAnswers::Open* RecordedAnswers::answered_by(OpenFaults& faults, const TraceEvent& event) {
  const auto is_open = [&](const Open& fault) {
    return fault.is_known() && fault.end_ns >= event.time_ns;
  };
  // Events of one move have the same time, and one of them usually contains the faulting page.
  for (Open& fault : faults)
    if (is_open(fault) && fault.answered_ns == event.time_ns) return &fault;
  const impl::PageRun run = run_of(event);
  const bool maps = event.kind == EventKind::remote_map;
  const auto rank = [&](const Open& fault) {
    const bool has_page = fault.page - run.first < run.count;
    const bool gets_it = (maps ? fault.table : fault.faulting_processor) == event.destination;
    const bool goes_on = !has_page && fault.answered_ns != 0;
    return std::tuple(has_page, gets_it, goes_on, fault.begin_ns);
  };
  Open* best = nullptr;
  for (Open& fault : faults)
    if (is_open(fault) && (best == nullptr || rank(fault) > rank(*best))) best = &fault;
  return best;
}

void RecordedAnswers::came(OpenFaults& faults, Open& fault, const TraceEvent& event) {
  RecordedAnswer& answer = answers_[fault.number];
  const bool maps = event.kind == EventKind::remote_map;
  // Not counted: a mapping of pages that moved for this fault, and a mapping at another processor,
  // which may be advised to map the pages.
  if (maps && (event.destination != fault.table ||
               (answer.arrivals.pages != 0 && answer.arrivals.kind != EventKind::remote_map)))
    return;
  fault.answered_ns = event.time_ns;
  if (answer.arrivals.pages == 0) {
    answer.arrivals.kind = event.kind;
    answer.arrivals.destination = event.destination;
    if (!maps)
      fault.free_ns =
          std::max(fault.free_ns, made_room_[static_cast<std::size_t>(event.destination)]);
    for (const Open& other : faults) {
      // A processor that has received pages keeps them for the minimum residency.
      const bool keeps = event.kind == EventKind::migration &&
                         other.faulting_processor != fault.faulting_processor;
      if (other.number != fault.number && other.end_ns <= event.time_ns)
        fault.free_ns = std::max(fault.free_ns,
                                 other.end_ns + (keeps ? impl::MinimumResidency::residence_ns : 0));
    }
    fault.free_ns = std::min(fault.free_ns, event.time_ns);
    // Population and mapping are recorded when they are complete, the other kinds when they begin.
    const bool says_begin =
        event.kind == EventKind::migration || event.kind == EventKind::duplicate;
    fault.served_ns = says_begin ? event.time_ns : fault.free_ns;
    note_times(fault);
  }
  const impl::PageRun run = run_of(event);
  answer.first = static_cast<std::uint16_t>(
      answer.end == 0 ? run.first : std::min<unsigned>(answer.first, run.first));
  answer.end = static_cast<std::uint16_t>(std::max<unsigned>(answer.end, run.end()));
  answer.arrivals.pages = static_cast<std::uint16_t>(answer.arrivals.pages + run.count);
}

}  // namespace wherry::replay
