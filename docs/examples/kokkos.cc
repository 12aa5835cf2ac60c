// Kokkos with managed memory: Kokkos's parallel_for on the host and kernels of a device work on the
// elements of the same view.
#include <Kokkos_Core.hpp>

#include "example.h"
#include "memory_space.h"

namespace {

// A view of memory that Kokkos does not own: it says how the memory is used, not where it is from.
using Numbers = Kokkos::View<double*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

// Returns whether the result is right.
bool run() {
  const wherry::runtime runtime;
  const std::size_t size = 100'000, bytes = size * sizeof(double);
  auto* const memory = static_cast<double*>(ManagedSpace().allocate("numbers", bytes));
  const Numbers numbers(memory, size);
  Kokkos::parallel_for(size, [=](std::size_t i) { numbers(i) = static_cast<double>(i); });
  Kokkos::fence();

  wherry::stream stream(runtime.device(0));
  stream.parallel_for(size, [memory](std::size_t i) { memory[i] *= 2; });
  stream.synchronize();
  example::Residency pages(runtime, 0);
  pages.add(std::span<const double>(memory, size));
  std::printf("%s of the pages are in the memory of device 0\n", pages.word());

  double sum = 0;
  Kokkos::parallel_reduce(
      size, [=](std::size_t i, double& part) { part += numbers(i); }, sum);
  ManagedSpace().deallocate("numbers", memory, bytes);
  std::printf("sum %.0f\n", sum);
  return sum == static_cast<double>(size * (size - 1));
}

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return example::report_errors("kokkos", [] { return run() ? 0 : 1; });
}
