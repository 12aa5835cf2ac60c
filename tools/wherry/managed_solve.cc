#include "managed_solve.h"

#include "problem.h"

namespace wherry::tool {
namespace {

constexpr std::size_t page_size = 4096;
// Rows whose part of a vector fills one 64 KiB region, the unit in which faults move pages.
constexpr std::size_t rows_per_region = 65536 / sizeof(double);

// q = A p on several devices, each with a stream and a range of rows.
class DeviceProduct {
 public:
  DeviceProduct(const runtime& library, std::size_t devices, const CsrView& matrix)
      : matrix_(matrix), ends_(split_rows(matrix, devices, rows_per_region)) {
    for (std::size_t i = 0; i < devices; ++i)
      streams_.emplace_back(library.device(static_cast<int>(i)));
  }

  // Returns when every device has finished.
  void multiply(const double* p, double* q) {
    std::size_t first = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const auto rows = [matrix = matrix_, p, q, first](std::size_t begin, std::size_t end) {
        multiply_rows(matrix, p, q, first + begin, first + end);
      };
      streams_[i].parallel_for(ends_[i] - first, rows);
      first = ends_[i];
    }
    for (const stream& each : streams_) each.synchronize();
  }

 private:
  CsrView matrix_;
  std::vector<std::size_t> ends_;
  std::vector<stream> streams_;
};

template <typename T>
Placement place(const runtime& library, const char* name, const managed_array<T>& array) {
  Placement placement;
  placement.array = name;
  placement.resident.resize(static_cast<std::size_t>(1 + library.device_count()));
  const auto* bytes = reinterpret_cast<const char*>(array.data());
  for (std::size_t offset = 0; offset < array.size_bytes(); offset += page_size) {
    const wherryPageInfo_t info = library.page_info(bytes + offset);
    ++placement.pages;
    for (std::size_t i = 0; i < placement.resident.size(); ++i)
      placement.resident[i] += info.resident >> i & 1;
  }
  return placement;
}

std::vector<Placement> place_all(const runtime& library, const Problem<managed_array>& problem) {
  return {place(library, "A offsets", problem.offsets),
          place(library, "A columns", problem.columns),
          place(library, "A values", problem.values),
          place(library, "p", problem.p),
          place(library, "q", problem.q),
          place(library, "x", problem.x),
          place(library, "r", problem.r),
          place(library, "z", problem.z),
          place(library, "b", problem.b),
          place(library, "1/diagonal", problem.inverse_diagonal)};
}

}  // namespace

ManagedSolution solve_managed(const Triplets& matrix, int devices, double tolerance,
                              std::size_t iterations_max, const runtime& library,
                              PhaseRecorder& recorder) {
  recorder.enter(Phase::assemble);
  Problem<managed_array> problem(matrix);
  DeviceProduct product(library, static_cast<std::size_t>(devices), problem.csr());

  recorder.enter(Phase::vectors);
  ManagedSolution solution;
  const auto multiply = [&] {
    recorder.enter(Phase::multiply);
    product.multiply(problem.p.data(), problem.q.data());
    recorder.enter(Phase::vectors);
  };
  solution.result = solve_cg(problem.vectors(), multiply, tolerance, iterations_max);
  solution.x.assign(problem.x.begin(), problem.x.end());
  recorder.leave();
  solution.placements = place_all(library, problem);
  return solution;
}

}  // namespace wherry::tool
