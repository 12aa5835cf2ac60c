// What the steps of docs/tutorial.md with managed memory have in common: two devices, each of which
// computes half of the rows.
#pragma once

#include <wherry/events.h>

#include <cstddef>
#include <cstdio>
#include <span>
#include <utility>
#include <wherry/wherry.hpp>

#include "jacobi.h"

namespace jacobi {

constexpr int devices = 2;

// Reports on a trace use this name.
inline void name(const wherry::managed_array<double>& array, const char* text) {
  wherryNameRange(array.data(), array.size_bytes(), text);
}

// The first row that this device computes.
inline std::size_t first_row_of(int device) {
  return first_row + (end_row - first_row) * static_cast<std::size_t>(device) / devices;
}

// The three arrays of the program, in managed memory.
struct Arrays {
  wherry::managed_array<double> grid, next, source;

  Arrays() : grid(values), next(values), source(values) {
    name(grid, "grid");
    name(next, "next");
    name(source, "source");
    fill(grid.data(), next.data(), source.data());
  }
  // Calls work(half) for the device's half of each array, with the row at the edge.
  template <typename Work>
  void for_halves(int device, const Work& work) {
    const std::size_t first = device == 0 ? 0 : first_row_of(device);
    const std::size_t end = device == devices - 1 ? n : first_row_of(device + 1);
    for (auto* const array : {&grid, &next, &source})
      work(array->span().subspan(first * n, (end - first) * n));
  }
};

struct Streams {
  wherry::stream each[devices]{wherry::stream(wherry::device(0)),
                               wherry::stream(wherry::device(1))};

  // Calls work(row) for all rows, on the device that has the row, and waits.
  template <typename Work>
  void for_rows(const Work& work) {
    for (int device = 0; device < devices; ++device) {
      const std::size_t first = first_row_of(device);
      each[device].parallel_for(first_row_of(device + 1) - first,
                                [work, first](std::size_t i) { work(first + i); });
    }
    for (const wherry::stream& stream : each) stream.synchronize();
  }
};

// All steps, as kernels, with the change found by the host's threads. Returns the last change.
inline double relax_and_check_on_host(Arrays& arrays, Streams& streams) {
  double change = 0;
  for (int step = 0; step < steps; ++step) {
    const double *const from = arrays.grid.data(), *const heat = arrays.source.data();
    double* const to = arrays.next.data();
    streams.for_rows([from, heat, to](std::size_t row) { relax_row(from, heat, to, row); });

    change = 0;
#pragma omp parallel for reduction(max : change)
    for (std::size_t row = first_row; row < end_row; ++row)
      change = std::max(change, change_of_row(from, to, row));
    std::swap(arrays.grid, arrays.next);
  }
  return change;
}

// How much went from one pool to another so far.
inline void print_moved() {
  std::printf("%lu MiB moved\n", wherry::runtime().stats().migrated_in * 4096 >> 20);
}

}  // namespace jacobi
