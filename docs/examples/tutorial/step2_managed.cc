// Step 2 of docs/tutorial.md: managed memory, the rows are kernels of two devices, and the change
// is still found by the host's threads. All of the memory goes back and forth in each step.
#include "two_devices.h"

int main() {
  jacobi::Arrays arrays;
  jacobi::Streams streams;

  const jacobi::Clock clock;
  const double change = jacobi::relax_and_check_on_host(arrays, streams);
  jacobi::print(change, clock.seconds());
  jacobi::print_moved();
}
