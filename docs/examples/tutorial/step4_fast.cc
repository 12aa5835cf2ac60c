// Step 4 of docs/tutorial.md: as step 3. Also, the memory goes to the devices by prefetches, ahead
// of the first step, and each device finds the change of its own rows.
#include "two_devices.h"

int main() {
  jacobi::Arrays arrays;
  jacobi::Streams streams;
  // Both devices write it and the host reads it, in each step.
  wherry::managed_array<double> changes(jacobi::n);
  wherry::advise(changes.span(), wherry::advice::set_preferred_location, wherry::host);

  const jacobi::Clock clock;
  for (int device = 0; device < jacobi::devices; ++device)
    arrays.for_halves(device, [&](std::span<double> half) {
      const wherry::device there(device);
      wherry::advise(half, wherry::advice::set_preferred_location, there);
      wherry::prefetch(half, there, streams.each[device]);
    });

  double change = 0;
  for (int step = 0; step < jacobi::steps; ++step) {
    const double *const from = arrays.grid.data(), *const heat = arrays.source.data();
    double *const to = arrays.next.data(), *const changed = changes.data();
    streams.for_rows([=](std::size_t row) {
      jacobi::relax_row(from, heat, to, row);
      changed[row] = jacobi::change_of_row(from, to, row);
    });
    change = *std::max_element(changes.begin(), changes.end());
    std::swap(arrays.grid, arrays.next);
  }
  jacobi::print(change, clock.seconds());
  jacobi::print_moved();
}
