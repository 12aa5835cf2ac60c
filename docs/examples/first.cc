#include <cstdio>
#include <wherry/wherry.hpp>

int main() {
  wherry::runtime runtime;
  wherry::stream stream(runtime.device(0));
  wherry::managed_array<double> x(1'000'000);
  for (double& value : x) value = 21;  // touched here first: the pages appear in the host's pool
  stream.parallel_for(x.size(), [x = x.span()](std::size_t i) { x[i] *= 2; });  // they move
  stream.synchronize();
  std::printf("%g, after %lu pages moved\n", x[0], runtime.stats().migrated_in);  // x[0] is back
}
