// Measurements of `wherry bench all` of single faults. Each function fills the figures of one group
// of bench_questions.cc, in the group's order.
//
// Each function requires a new process with one thread, in which the library has not been started,
// and changes its environment. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

void measure_first_touch(const BenchScale& scale, std::span<Figures> figures);
void measure_fault_latency(const BenchScale& scale, std::span<Figures> figures);
void measure_read_mostly(const BenchScale& scale, std::span<Figures> figures);
void measure_write_collapse(const BenchScale& scale, std::span<Figures> figures);
void measure_remote_map(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
