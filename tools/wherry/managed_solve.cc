#include "managed_solve.h"

#include <fmt/core.h>
#include <wherry/events.h>

#include "device_product.h"
#include "vectors.h"

namespace wherry::tool {
namespace {

constexpr std::size_t page_size = 4096;

Placement empty_placement(const runtime& library, std::string name) {
  return {std::move(name), 0,
          std::vector<std::uint64_t>(static_cast<std::size_t>(1 + library.device_count()))};
}

template <typename T>
void add_pages(Placement& placement, const runtime& library, const managed_array<T>& array) {
  const auto* bytes = reinterpret_cast<const char*>(array.data());
  for (std::size_t offset = 0; offset < array.size_bytes(); offset += page_size) {
    const wherryPageState info = library.page_state(bytes + offset);
    ++placement.pages;
    for (std::size_t i = 0; i < placement.resident.size(); ++i)
      placement.resident[i] += info.resident >> i & 1;
  }
}

// Calls visit(name, array...) for each group of arrays.
template <typename Visit>
void for_all_arrays(const DeviceProduct& product, const Vectors<managed_array>& vectors,
                    const Visit& visit) {
  for (std::size_t i = 0; i < product.shares().size(); ++i) {
    const Share& share = product.shares()[i];
    visit(fmt::format("A of device {}", i), share.offsets, share.columns, share.values);
    visit(fmt::format("p of device {}", i), share.p);
    visit(fmt::format("q of device {}", i), share.q);
  }
  visit("vectors", vectors.b, vectors.inverse_diagonal, vectors.x, vectors.r, vectors.z, vectors.p,
        vectors.q);
}

std::vector<Placement> place_all(const runtime& library, const DeviceProduct& product,
                                 const Vectors<managed_array>& vectors) {
  std::vector<Placement> placements;
  for_all_arrays(product, vectors, [&](std::string name, const auto&... arrays) {
    placements.push_back(empty_placement(library, std::move(name)));
    (add_pages(placements.back(), library, arrays), ...);
  });
  return placements;
}

// Names the memory, for reports on a trace of the solve.
void name_all(const DeviceProduct& product, const Vectors<managed_array>& vectors) {
  for_all_arrays(product, vectors, [&](const std::string& name, const auto&... arrays) {
    const auto name_one = [&](const auto& array) {
      if (array.size_bytes() == 0) return;
      detail::check(wherryNameRange(array.data(), array.size_bytes(), name.c_str()),
                    "wherryNameRange");
    };
    (name_one(arrays), ...);
  });
}

}  // namespace

ManagedSolution solve_managed(const CsrView& matrix, std::span<const double> inverse_diagonal,
                              const SolveOptions& options, const runtime& library,
                              PhaseRecorder& recorder) {
  recorder.enter(Phase::assemble);
  Vectors<managed_array> vectors(inverse_diagonal);
  DeviceProduct product(matrix, options.devices, options.advise, library);
  name_all(product, vectors);

  recorder.enter(Phase::vectors);
  int products = 0;
  wherryProcessorStats first_iteration{};
  const auto multiply = [&] {
    if (++products == 2) {
      recorder.enter(Phase::vectors);  // counts the vector work so far
      first_iteration = recorder.all().sum();
    }
    product.multiply(vectors.p.span(), vectors.q.span(), recorder);
    recorder.enter(Phase::vectors);
  };
  ManagedSolution solution;
  solution.result = solve_cg(vectors.spans(), multiply, options.tolerance, options.iterations_max);
  solution.x.assign(vectors.x.begin(), vectors.x.end());
  recorder.leave();
  if (products >= 2) solution.after_first_iteration = recorder.all().sum() - first_iteration;
  solution.placements = place_all(library, product, vectors);
  return solution;
}

}  // namespace wherry::tool
