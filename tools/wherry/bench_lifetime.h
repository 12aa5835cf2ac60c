// The questions of `wherry bench all` about the start of the library, and large allocations. Each
// function fills the figures of one group of bench_questions.cc, in the order there.
//
// Requires for each: the process is a new one with one thread, whose environment may be changed,
// and in which the library has not been started. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

void measure_startup_times(const BenchScale& scale, std::span<Figures> figures);
void measure_teardown(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
