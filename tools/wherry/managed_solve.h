// Solves a system whose matrix and vectors are managed memory: the host does the vector work, the
// devices multiply (see device_product.h for what moves).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include <wherry/wherry.hpp>

#include "cg_solver.h"
#include "csr.h"
#include "phases.h"

namespace wherry::tool {

// In whose memory some arrays' pages are.
struct Placement {
  std::string arrays;
  std::uint64_t pages = 0;
  std::vector<std::uint64_t>
      resident;  // pages [0] at the host, [1 + d] at device d; copies count at each
};

struct ManagedSolution {
  CgResult result;
  std::vector<double> x;              // a copy on ordinary memory
  std::vector<Placement> placements;  // after the last iteration
};

// Solves A x = b with b all ones on the first `devices` devices. Throws wherry::error. Leaves the
// recorder outside any phase.
ManagedSolution solve_managed(const CsrView& matrix, std::span<const double> inverse_diagonal,
                              int devices, double tolerance, std::size_t iterations_max,
                              const runtime& library, PhaseRecorder& recorder);

}  // namespace wherry::tool
