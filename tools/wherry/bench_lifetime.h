// Measurements of `wherry bench all` of the library's start and of large allocations. Each function
// fills the figures of one group of bench_questions.cc, in the group's order.
//
// Each function requires a new process with one thread, in which the library has not been started,
// and changes its environment. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

void measure_startup_times(const BenchScale& scale, std::span<Figures> figures);
void measure_teardown(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
