#include "bench.h"

#include <cstdint>
#include <limits>

namespace wherry::tool {

CLI::App* add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the library on this machine");
  bench->require_subcommand(1);

  CLI::App* oversubscribe = bench->add_subcommand(
      "oversubscribe", "A device works on more memory than it holds: what it finds there");
  oversubscribe
      ->add_option("--rounds", options.oversubscribe.rounds,
                   "How often each block is accessed, on average, after warming up")
      ->type_name("N")
      ->check(CLI::Range(1, oversubscribe_rounds_max))
      ->capture_default_str();
  oversubscribe->add_option("--seed", options.oversubscribe.seed, "Of the random orders")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  oversubscribe->add_flag("--json", options.oversubscribe.json, "Print one JSON object");
  return bench;
}

int run_bench(const BenchOptions& options) {
  return run_oversubscribe(options.oversubscribe);
}

}  // namespace wherry::tool
