#include "replay_warnings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "base/page.h"
#include "complain.h"
#include "trace_head.h"

namespace wherry::tool {
namespace {

using impl::EventCause;
using impl::EventKind;

template <typename Fits>
std::string names_of(std::span<const ReplayedPolicy> policies, const Fits& fits) {
  std::string names;
  for (const ReplayedPolicy& policy : policies)
    if (fits(policy)) names += (names.empty() ? "" : ", ") + policy.name;
  return names;
}

std::uint64_t pages_of(const Trace& trace, EventKind kind, EventCause cause) {
  std::uint64_t bytes = 0;
  for (const impl::TraceEvent& event : trace.events)
    if (event.kind == kind && event.cause == cause) bytes += event.bytes;
  return bytes / impl::page_size;
}

// Pages that moved with a fault on another page.
std::uint64_t pages_along(const Trace& trace) {
  std::uint64_t moved = pages_of(trace, EventKind::migration, EventCause::speculative_prefetch);
  for (const impl::TraceEvent& event : trace.events)
    if (event.kind == EventKind::migration && event.cause == EventCause::fault)
      moved += std::max<std::uint64_t>(event.bytes / impl::page_size, 1) - 1;
  return moved;
}

bool moves_pages(const ReplayedPolicy& policy) {
  return policy.leaves_pages == false;
}

// Warns if the recorded policy maps pages instead of moving them.
void warn_of_few_faults(const std::string& recorded, std::span<const ReplayedPolicy> policies) {
  if (leaves_pages(recorded) != true) return;
  const std::string movers = names_of(policies, moves_pages);
  if (!movers.empty())
    (void)complain(fmt::format(
        "this was recorded under {}, which leaves pages mapped: it has too few faults to judge {}; "
        "record under migrate-always",
        recorded, movers));
}

// Warns if thrash detection pinned pages that other policies would move: processors mapped them
// remotely.
void warn_of_pins(const Trace& trace, const replay::MachineCounts& recorded,
                  std::span<const ReplayedPolicy> policies) {
  // Fewer pages, or a smaller part of those that moved, do not change the result much.
  constexpr std::uint64_t pinned_min = 16;
  constexpr std::uint64_t part_min = 50;
  const std::uint64_t pinned = pages_of(trace, EventKind::pin, EventCause::thrash_pin);
  if (pinned < pinned_min || pinned * part_min <= recorded.migrated_pages) return;
  const std::string movers = names_of(policies, [&](const ReplayedPolicy& policy) {
    return policy.counts.mapped_pages < pinned / 2;
  });
  if (!movers.empty())
    (void)complain(fmt::format(
        "the recorded policy detected thrashing and pinned {} pages: accesses to them from then on "
        "are not recorded, so that the faults and times of {} are too low; record under "
        "migrate-always",
        pinned, movers));
}

// Warns if many pages moved along with faults on other pages. A policy that moves fewer pages would
// have a fault on each of them that the program uses.
void warn_of_pages_that_came_along(const Trace& trace, const replay::MachineCounts& recorded,
                                   std::span<const ReplayedPolicy> policies) {
  const std::uint64_t along = pages_along(trace);
  if (2 * along <= recorded.migrated_pages) return;
  // Policies that move fewer pages in all and with each fault, and do not map pages instead.
  const std::string sparing = names_of(policies, [&](const ReplayedPolicy& policy) {
    const replay::MachineCounts& its = policy.counts;
    return moves_pages(policy) && 2 * its.migrated_pages < recorded.migrated_pages &&
           2 * its.migrated_pages * recorded.migrations < recorded.migrated_pages * its.migrations;
  });
  if (!sparing.empty())
    (void)complain(fmt::format(
        "{} of {} pages moved along with faults on other pages: accesses to them are not recorded, "
        "so that the faults and times of {} are too low; record with WHERRY_FAULT_REGION=4K under "
        "migrate-always",
        along, recorded.migrated_pages, sparing));
}

}  // namespace

void warn_of_hidden_accesses(const Trace& trace, const replay::MachineCounts& recorded,
                             std::span<const ReplayedPolicy> policies) {
  if (!trace.settings) return;
  warn_of_few_faults(trace.settings->policy_in_force, policies);
  warn_of_pins(trace, recorded, policies);
  warn_of_pages_that_came_along(trace, recorded, policies);
}

}  // namespace wherry::tool
