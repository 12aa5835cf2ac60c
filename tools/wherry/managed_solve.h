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

struct SolveOptions {
  int devices = 0;      // the first so many multiply
  bool advise = false;  // see DeviceProduct
  double tolerance = 0;
  std::size_t iterations_max = 0;
};

struct ManagedSolution {
  CgResult result;
  std::vector<double> x;              // a copy on ordinary memory
  std::vector<Placement> placements;  // after the last iteration
  wherryProcessorStats
      after_first_iteration{};  // what all processors did from the second product on
};

// Solves A x = b with b all ones. Throws wherry::error. Leaves the recorder outside any phase.
ManagedSolution solve_managed(const CsrView& matrix, std::span<const double> inverse_diagonal,
                              const SolveOptions& options, const runtime& library,
                              PhaseRecorder& recorder);

}  // namespace wherry::tool
