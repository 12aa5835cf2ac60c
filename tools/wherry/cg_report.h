// The output of `wherry cg`: tables for people, or one JSON object.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "cg_solver.h"
#include "managed_solve.h"
#include "phases.h"

namespace wherry::tool {

struct CgReport {
  std::string matrix;  // its file, or "poisson NxN"
  std::size_t rows = 0;
  std::size_t entries = 0;
  int devices = 0;
  bool advised = false;
  double tolerance = 0;
  CgResult result;
  double relative_residual = 0;  // |b - A x| / |b|, computed on ordinary memory
  std::vector<Placement> placements;
  wherryProcessorStats after_first_iteration{};
  const PhaseRecorder* phases = nullptr;  // borrowed
};

// The texts end with a newline.
std::string as_text(const CgReport& report);
std::string as_json(const CgReport& report);

}  // namespace wherry::tool
