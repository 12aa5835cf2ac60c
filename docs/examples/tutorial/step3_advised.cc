// Step 3 of docs/tutorial.md: as step 2, with advice. Each device's rows stay in its memory once
// they are there, and the host maps them.
#include "two_devices.h"

int main() {
  jacobi::Arrays arrays;
  jacobi::Streams streams;
  for (int device = 0; device < jacobi::devices; ++device)
    arrays.for_halves(device, [device](std::span<double> half) {
      wherry::advise(half, wherry::advice::set_preferred_location, wherry::device(device));
    });

  const jacobi::Clock clock;
  const double change = jacobi::relax_and_check_on_host(arrays, streams);
  jacobi::print(change, clock.seconds());
  jacobi::print_moved();
}
