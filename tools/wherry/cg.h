// `wherry cg`: solves a sparse system in managed memory, checks the result against ordinary memory,
// and reports what moved.
#pragma once

#include <cstdint>
#include <string>

namespace wherry::tool {

inline constexpr std::uint32_t poisson_max = 4096;

struct CgOptions {
  std::string matrix;           // a Matrix Market file; if empty, the Poisson problem
  std::uint32_t poisson = 128;  // grid points on a side
  int devices = 0;              // 0: all devices
  double tolerance = 1e-8;
  bool advise = false;  // advise the library how matrix and vectors are used
  bool json = false;
};

// Prints to stdout, or one line to stderr on failure. Returns the exit code. Throws wherry::error,
// std::bad_alloc.
int run_cg(const CgOptions& options);

}  // namespace wherry::tool
