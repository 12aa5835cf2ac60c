// The questions of `wherry bench all` about large memory: what faults and prefetches achieve when
// all of it is accessed or moved. Each function fills the figures of one group of
// bench_questions.cc, in the order there.
//
// Requires for each: the process is a new one with one thread, whose environment may be changed,
// and in which the library has not been started. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

void measure_first_touch_sweep(const BenchScale& scale, std::span<Figures> figures);
void measure_threads(const BenchScale& scale, std::span<Figures> figures);
void measure_sweeps(const BenchScale& scale, std::span<Figures> figures);
void measure_prefetches(const BenchScale& scale, std::span<Figures> figures);
void measure_evictions(const BenchScale& scale, std::span<Figures> figures);

// Whether the machine has more than one NUMA node with memory: the peer of prefetches is
// move_pages(2) then.
bool several_nodes();

}  // namespace wherry::tool
