// The counters of each processor since cuInit. A program reads them with wherryGetStats;
// docs/stats.md explains each.
#pragma once

#include <atomic>
#include <cstdint>

// The names of the counters are listed only here. `X(name)` is expanded for each of them.
// To add a counter, enter it in WHERRY_LATER_PROCESSOR_COUNTERS or in WHERRY_SUMMED_COUNTERS, at
// the end of wherryStats, and in docs/stats.md: the compiler and tests/tree/docs_test.py report
// which of them is missing.

// The fields of wherryProcessorStats; wherryStats has the sums over all processors. The list cannot
// grow: wherryStats has an array of the struct between other fields.
#define WHERRY_PROCESSOR_COUNTERS(X) \
  X(faults_missing)                  \
  X(faults_minor)                    \
  X(faults_write_protect)            \
  X(populated)                       \
  X(migrated_in)                     \
  X(migrated_out)                    \
  X(duplicated)                      \
  X(collapsed)                       \
  X(mapped_remotely)                 \
  X(evicted)                         \
  X(prefetched)                      \
  X(bytes_copied)                    \
  X(service_ns)

// Further counters of each processor: wherryStats has their sum as `NAME`, and the value of each
// processor in `processor_NAME`.
#define WHERRY_LATER_PROCESSOR_COUNTERS(X) \
  X(held) /* each time that a page does not leave the pool because somebody else holds it */

// Counters of which a program reads only the sums over all processors.
#define WHERRY_SUMMED_COUNTERS(X)                                           \
  X(thrashing_detected) /* at the processor to which the page moved */      \
  X(throttled)          /* at the processor that has to wait */             \
  X(thrash_pinned)      /* pages, at the processor where they are pinned */ \
  X(thrash_unpinned)    /* pages, at the processor where they were pinned */

namespace wherry::impl {

// The counters of one processor, in pages unless the name says otherwise. Their memory order is
// relaxed. Each is raised before the access that caused the event returns.
struct Counters {
#define WHERRY_COUNTER(name) std::atomic<std::uint64_t> name{0};
  WHERRY_PROCESSOR_COUNTERS(WHERRY_COUNTER)
  WHERRY_LATER_PROCESSOR_COUNTERS(WHERRY_COUNTER)
  WHERRY_SUMMED_COUNTERS(WHERRY_COUNTER)
#undef WHERRY_COUNTER
  // Pages that the pool held although the page state says that they are not resident. Must stay 0;
  // programs cannot read it.
  std::atomic<std::uint64_t> false_residency{0};
};

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace wherry::impl
