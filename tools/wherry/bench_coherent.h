// The questions of `wherry bench all` about coherent devices. Each function fills the figures of
// one group of bench_questions.cc, in the order there.
//
// Requires for each: the process is a new one with one thread, whose environment may be changed,
// and in which the library has not been started. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

// Accesses by an attached thread to memory in the pool of a coherent device.
void measure_coherent_resident(const BenchScale& scale, std::span<Figures> figures);
// Prefetches, beside those of an isolated device.
void measure_coherent_prefetches(const BenchScale& scale, std::span<Figures> figures);
// How much longer a program takes because accesses are sampled, for budgets of 1, 2 and 4 %.
void measure_sampling(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
