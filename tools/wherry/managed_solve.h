// Solves a system whose matrix and vectors are in managed memory: the host does the vector work,
// the devices multiply (device_product.h says what moves).
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

// Where the pages of some arrays are resident.
struct Placement {
  std::string arrays;
  std::uint64_t pages = 0;
  // Number of resident pages: [0] at the host, [1 + d] at device d. Copies count at each.
  std::vector<std::uint64_t> resident;
};

struct SolveOptions {
  int devices = 0;      // number of devices that multiply
  bool advise = false;  // see DeviceProduct
  double tolerance = 0;
  std::size_t iterations_max = 0;
};

struct ManagedSolution {
  CgResult result;
  std::vector<double> x;              // a copy in ordinary memory
  std::vector<Placement> placements;  // after the last iteration
  // What all processors did from the second product on.
  wherryProcessorStats after_first_iteration{};
};

// Solves A x = b with b all ones. Throws wherry::error. Ends the recorder's current phase.
ManagedSolution solve_managed(const CsrView& matrix, std::span<const double> inverse_diagonal,
                              const SolveOptions& options, const runtime& library,
                              PhaseRecorder& recorder);

}  // namespace wherry::tool
