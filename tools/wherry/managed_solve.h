// Solves a system whose matrix and vectors are managed memory. The host assembles and does the vector work, the devices
// multiply, each its share of the rows: so the matrix travels to the devices once, and in each iteration p travels to
// them and q back, on faults. x, r and z stay with the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <wherry/wherry.hpp>

#include "cg_solver.h"
#include "phases.h"
#include "triplets.h"

namespace wherry::tool {

// In whose memory an array's pages are.
struct Placement {
  std::string array;
  std::uint64_t pages = 0;
  std::vector<std::uint64_t>
      resident;  // pages [0] at the host, [1 + d] at device d; copies count at each
};

struct ManagedSolution {
  CgResult result;
  std::vector<double> x;              // a copy on ordinary memory
  std::vector<Placement> placements;  // after the last iteration
};

// Uses the first `devices` devices. Throws wherry::error. The recorder is left outside any phase.
ManagedSolution solve_managed(const Triplets& matrix, int devices, double tolerance,
                              std::size_t iterations_max, const runtime& library,
                              PhaseRecorder& recorder);

}  // namespace wherry::tool
