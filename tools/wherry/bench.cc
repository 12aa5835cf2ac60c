#include "bench.h"

#include "kept_file.h"
#include "policies.h"

#include <wherry/wherry.h>
#include <cstdint>
#include <limits>

namespace wherry::tool {
namespace {

void add_svg(CLI::App& command, std::string& file) {
  command.add_option("--svg", file, "Also write a plot of the results to this file")
      ->type_name("FILE")
      ->check(CLI::Validator(
          [](std::string& path) {
            return path.empty() ? "name a file for the plot" : why_not_saved(path);
          },
          ""));
}

CLI::App* add_prefetch(CLI::App& bench, PrefetchBenchOptions& options) {
  CLI::App* prefetch = bench.add_subcommand(
      "prefetch", "Move memory ahead of its use, beside a plain copy and beside faults");
  prefetch->add_option("--bytes", options.bytes, "How much to move; suffixes K, M, G")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(prefetch_bytes_min, prefetch_bytes_max))
      ->capture_default_str();
  prefetch->add_option("--device", options.device, "The device to move to")
      ->type_name("D")
      ->check(CLI::Range(0, WHERRY_MAX_DEVICES - 1))
      ->capture_default_str();
  add_policy(*prefetch);
  prefetch->add_flag("--json", options.json, "Print one JSON object");
  return prefetch;
}

CLI::App* add_oversubscribe(CLI::App& bench, OversubscribeOptions& options) {
  CLI::App* oversubscribe = bench.add_subcommand(
      "oversubscribe",
      "Let a device work on more memory than it holds, and count what it finds resident");
  oversubscribe
      ->add_option("--rounds", options.rounds,
                   "How often each block is accessed, on average, after warming up")
      ->type_name("N")
      ->check(CLI::Range(1, oversubscribe_rounds_max))
      ->capture_default_str();
  oversubscribe->add_option("--seed", options.seed, "Seed of the random orders")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  add_policy(*oversubscribe);
  add_svg(*oversubscribe, options.svg);
  oversubscribe->add_flag("--json", options.json, "Print one JSON object");
  return oversubscribe;
}

CLI::App* add_policies(CLI::App& bench, PolicyBenchOptions& options) {
  CLI::App* policies = bench.add_subcommand(
      "policies", "Run typical programs under each policy, to see which one suits which program");
  policies
      ->add_option("--policies", options.policies,
                   "Which policies, in the form of WHERRY_POLICY; all built-in ones by default")
      ->type_name("NAME[,PARAMETER=NUMBER...]");
  policies->add_option("--workloads", options.workloads, "Which workloads; all by default")
      ->type_name("NAME");
  policies->add_option("--rounds", options.rounds, "How often each is run; the best run counts")
      ->type_name("N")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  policies->add_option("--seed", options.seed, "Seed of the random orders")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  policies
      ->add_option("--traces", options.traces,
                   "Keep a trace of each workload in this folder, under its best policy")
      ->check(CLI::ExistingDirectory)
      ->type_name("FOLDER");
  add_svg(*policies, options.svg);
  policies->add_flag("--json", options.json, "Print one JSON object");
  return policies;
}

CLI::App* add_numa(CLI::App& bench, NumaBenchOptions& options) {
  CLI::App* numa = bench.add_subcommand(
      "numa",
      "Move pages between NUMA nodes, by each method, for latency and bandwidth of each pair");
  numa->add_option("--from", options.from, "Only from this node")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  numa->add_option("--to", options.to, "Only to this node")
      ->type_name("M")
      ->check(CLI::NonNegativeNumber);
  numa->add_option("--bytes", options.bytes,
                   "How much to move; suffixes K, M, G; whole pages of 2M")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(numa_bytes_min, numa_bytes_max))
      ->check(CLI::Validator(
          [](std::string& text) {
            std::uint64_t bytes = 0;
            const bool whole =
                CLI::detail::lexical_cast(text, bytes) && bytes % numa_bytes_min == 0;
            return whole ? std::string() : "must be a multiple of 2M, not " + text;
          },
          ""))
      ->capture_default_str();
  numa->add_option("--page", options.page, "Page size")
      ->type_name("4K|2M")
      ->check(CLI::IsMember({"4K", "2M"}))
      ->capture_default_str();
  numa->add_option("--method", options.methods, "Which methods; all by default")
      ->type_name("fault|prefetch|move_pages")
      ->check(CLI::IsMember({"fault", "prefetch", "move_pages"}));
  add_svg(*numa, options.svg);
  numa->add_flag("--json", options.json, "Print one JSON object");
  return numa;
}

CLI::App* add_all(CLI::App& bench, AllBenchOptions& options) {
  CLI::App* all = bench.add_subcommand(
      "all",
      "Answer each question about the library's speed, beside what Linux permits and what a "
      "program would otherwise use");
  all->add_option("--only", options.only, "Only these questions, by key or group; all by default")
      ->type_name("KEY");
  all->add_option("--bytes", options.bytes,
                  "How much memory is large; suffixes K, M, G. By default 1G, or less where an "
                  "eighth of the available memory is less")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(all_bytes_min, all_bytes_max));
  all->add_flag("--json", options.json, "Print one JSON object");
  return all;
}

CLI::App* add_programs(CLI::App& bench, ProgramBenchOptions& options) {
  CLI::App* programs = bench.add_subcommand(
      "programs",
      "Run programs of Debian that know nothing of Wherry, with and without wherry run");
  programs->add_option("--only", options.only, "Only programs with such names; all by default")
      ->type_name("PATTERN");
  programs
      ->add_option("--rounds", options.rounds,
                   "How often each is run in each way; the medians count")
      ->type_name("N")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  programs
      ->add_option("--warm", options.warm,
                   "How much memory is used before, because the first use of a virtual machine's "
                   "memory is slower; suffixes K, M, G; 4G by default, 0: none")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false));
  programs->add_flag("--record", options.record, "Run each also with wherry run --record");
  programs
      ->add_option("--sample", options.sample,
                   "Run each also with wherry run --record and --sample PERCENT")
      ->check(CLI::Range(0.1, 50.0))
      ->type_name("PERCENT");
  programs
      ->add_option("--traces", options.traces,
                   "Keep the traces of the last round in this folder, as PROGRAM-record-PROCESS "
                   "and PROGRAM-sample-PROCESS")
      ->check(CLI::ExistingDirectory)
      ->type_name("FOLDER");
  programs->add_option("--devices", options.devices, "As of wherry run")->type_name("LIST");
  programs->add_option("--policy", options.policy, "As of wherry run")
      ->type_name("NAME[,PARAMETER=NUMBER...]");
  programs->add_option("--attach", options.attach, "As of wherry run")
      ->allow_extra_args(false)
      ->type_name("RULE");
  programs->add_flag("--list", options.list, "Only list the programs, and the missing packages");
  programs->add_flag("--json", options.json, "Print JSON");
  return programs;
}

}  // namespace

CLI::App* add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the library on this machine");
  bench->require_subcommand(1);
  add_prefetch(*bench, options.prefetch);
  options.answers_all = add_all(*bench, options.all);
  options.compares_policies = add_policies(*bench, options.policies);
  options.compares_nodes = add_numa(*bench, options.numa);
  options.runs_programs = add_programs(*bench, options.programs);
  options.oversubscribes = add_oversubscribe(*bench, options.oversubscribe);
  return bench;
}

int run_bench(const BenchOptions& options) {
  if (options.answers_all->parsed()) return run_bench_all(options.all);
  if (options.compares_policies->parsed()) return run_bench_policies(options.policies);
  if (options.compares_nodes->parsed()) return run_bench_numa(options.numa);
  if (options.runs_programs->parsed()) return run_bench_programs(options.programs);
  return options.oversubscribes->parsed() ? run_oversubscribe(options.oversubscribe)
                                          : run_bench_prefetch(options.prefetch);
}

}  // namespace wherry::tool
