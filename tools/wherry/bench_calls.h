// Measurements of `wherry bench all` of calls that move no pages. Each function fills the figures
// of one group of bench_questions.cc, in the group's order.
//
// Each function requires a new process with one thread, in which the library has not been started,
// and changes its environment. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

void measure_launch(const BenchScale& scale, std::span<Figures> figures);
void measure_calls(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
