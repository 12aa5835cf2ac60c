// Measurements of `wherry bench all` of large memory: the speed of faults and prefetches when all
// of the memory is accessed or moved. Each function fills the figures of one group of
// bench_questions.cc, in the group's order.
//
// Each function requires a new process with one thread, in which the library has not been started,
// and changes its environment. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

void measure_first_touch_sweep(const BenchScale& scale, std::span<Figures> figures);
void measure_threads(const BenchScale& scale, std::span<Figures> figures);
void measure_sweeps(const BenchScale& scale, std::span<Figures> figures);
void measure_prefetches(const BenchScale& scale, std::span<Figures> figures);
void measure_evictions(const BenchScale& scale, std::span<Figures> figures);

// Whether the machine has more than one NUMA node with memory. Then prefetches are compared with
// move_pages(2).
bool several_nodes();

}  // namespace wherry::tool
