// Measurements of `wherry bench all` of coherent devices. Each function fills the figures of one
// group of bench_questions.cc, in the group's order.
//
// Each function requires a new process with one thread, in which the library has not been started,
// and changes its environment. Throws std::exception.
#pragma once

#include <span>

#include "bench_figures.h"

namespace wherry::tool {

// Accesses of a thread that is attached to a coherent device to memory in the device's pool.
void measure_coherent_resident(const BenchScale& scale, std::span<Figures> figures);
// Prefetches, compared with those of an isolated device.
void measure_coherent_prefetches(const BenchScale& scale, std::span<Figures> figures);
// How much longer a program takes because accesses are sampled (WHERRY_SAMPLING of 1, 2 and 4 %).
void measure_sampling(const BenchScale& scale, std::span<Figures> figures);

}  // namespace wherry::tool
