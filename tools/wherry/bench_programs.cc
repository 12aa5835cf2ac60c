#include "bench_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "bench_report.h"
#include "byte_text.h"
#include "complain.h"
#include "measure/machine.h"
#include "os/memory/memory_limit.h"
#include "programs.h"
#include "progress.h"
#include "temporary_folder.h"
#include "timed_run.h"
#include "warm_memory.h"

namespace wherry::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds run_limit{300};
const std::string trace_prefix = "trace-";

// A way to run a program. The first one is without Wherry.
struct Way {
  std::string name;
  std::vector<std::string> prefix;
};

std::vector<Way> ways(const ProgramBenchOptions& options) {
  std::vector<std::string> run{fs::read_symlink("/proc/self/exe"), "run", "--quiet", "--report",
                               "report.json"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) run.insert(run.end(), {option, value});
  };
  add("--devices", options.devices);
  add("--policy", options.policy);
  for (const std::string& rule : options.attach) add("--attach", rule);
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = run;
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("--");
    return words;
  };
  std::vector<Way> all{{"without", {}}, {"with", with({})}};
  if (options.record) all.push_back({"record", with({"--record", trace_prefix + "%p"})});
  if (options.sample != 0)
    all.push_back({"sample", with({"--record", trace_prefix + "%p", "--sample",
                                   fmt::format("{:g}", options.sample)})});
  return all;
}

// What a run produced. Runs with equal outcomes did the same.
struct Outcome {
  int code = 0;
  std::uint64_t checksum = 0;
  bool operator==(const Outcome&) const = default;
};

// FNV-1a, over several texts.
class Checksum {
 public:
  void add(std::string_view text) {
    for (const char byte : text) sum_ = (sum_ ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 14695981039346656037u;
};

bool is_result(const Program& program, const std::string& line) {
  return program.result_lines.empty() ||
         std::ranges::any_of(program.result_lines, [&](const std::string& text) {
           return line.find(text) != std::string::npos;
         });
}

// Returns a checksum of the program's results, without digits and spaces if these differ each time.
std::uint64_t checksum_of(const Program& program, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Checksum checksum;
  if (program.prints_figures || !program.result_lines.empty()) {
    for (std::string line; std::getline(file, line);) {
      if (!is_result(program, line)) continue;
      std::erase_if(line, [&](char byte) {
        return program.prints_figures &&
               std::string_view("0123456789.+-eE \t").find(byte) != std::string_view::npos;
      });
      checksum.add(line);
    }
  } else {
    std::string buffer(1 << 20, '\0');
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
           file.gcount() != 0)
      checksum.add(std::string_view(buffer).substr(0, static_cast<std::size_t>(file.gcount())));
  }
  return checksum.sum();
}

// All runs of a program in one way.
struct WayResult {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  // This way's time, divided by that without Wherry in the same round.
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  bool same = true;  // each run did the same as Runner::first_
  bool timed_out = false;
  int code = 0;  // of the first run that was not the same, or of all
  double trace_bytes = 0;
};

struct ProgramRow {
  const Program* program = nullptr;
  std::vector<WayResult> ways;  // in the order of ways(); empty: the program is not installed
  Json report;                  // of the last run with Wherry

  // Whether all runs without Wherry had the same output and exit code, so that runs with it should,
  // too.
  bool repeats() const { return ways[0].same; }
  double managed_mib() const { return report.value("most_bytes", 0.0) / mebibyte; }
};

class Runner {
 public:
  Runner(const Program& program, const fs::path& folder) : program_(program), folder_(folder) {
    fs::create_directory(folder);
    program.prepare(folder);
    first_ = run({}).outcome;
  }

  struct Done {
    TimedRun run;
    Outcome outcome;
  };
  Done run(const std::vector<std::string>& prefix) const {
    if (program_.results != "stdout") fs::remove(folder_ / program_.results);
    std::vector<std::string> words = prefix;
    words.insert(words.end(), program_.command.begin(), program_.command.end());
    Done done;
    done.run = run_timed(words, program_.client, folder_, run_limit);
    done.outcome = {done.run.code, checksum_of(program_, folder_ / program_.results)};
    return done;
  }
  // `kept`: a folder for the traces; if empty, they are removed.
  void add_run(const Way& way, WayResult& result, const fs::path& kept) const {
    const Done done = run(way.prefix);
    result.seconds.push_back(done.run.seconds);
    result.cpu_seconds.push_back(done.run.cpu_seconds);
    result.timed_out = result.timed_out || done.run.timed_out;
    if (result.same) result.code = done.run.code;
    result.same = result.same && done.outcome == first_;
    result.trace_bytes = 0;
    for (const fs::path& trace : traces()) {
      result.trace_bytes += static_cast<double>(fs::file_size(trace));
      if (!kept.empty())
        fs::copy_file(trace,
                      kept / fmt::format("{}-{}-{}", program_.name, way.name,
                                         trace.filename().string().substr(trace_prefix.size())),
                      fs::copy_options::overwrite_existing);
      fs::remove(trace);
    }
  }
  Json report() const {
    std::ifstream file(folder_ / "report.json");
    const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json : Json::object();
  }

 private:
  std::vector<fs::path> traces() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().filename().string().starts_with(trace_prefix)) found.push_back(entry.path());
    return found;
  }

  const Program& program_;
  const fs::path folder_;
  Outcome first_;  // of a run without Wherry before those that count
};

ProgramRow measure(const Program& program, const fs::path& folder,
                   const ProgramBenchOptions& options, Progress& progress) {
  const std::vector<Way> all = ways(options);
  ProgramRow row{&program, std::vector<WayResult>(all.size()), Json::object()};
  const Runner runner(program, folder);
  for (int round = 0; round < options.rounds; ++round) {
    // Every second round is in the opposite order, so that a trend of the machine's speed favours
    // no way.
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t way = round % 2 == 0 ? i : all.size() - 1 - i;
      const bool is_last = round + 1 == options.rounds;
      progress.show(fmt::format("{} ({}): round {} of {}", program.name, all[way].name, round + 1,
                                options.rounds));
      runner.add_run(all[way], row.ways[way], is_last ? options.traces : std::string());
      if (way == 1) row.report = runner.report();
    }
    for (WayResult& way : row.ways) {
      way.ratios.push_back(way.seconds.back() / row.ways[0].seconds.back());
      way.cpu_ratios.push_back(way.cpu_seconds.back() / row.ways[0].cpu_seconds.back());
    }
  }
  return row;
}

std::string agreement(const ProgramRow& row, const WayResult& way) {
  if (way.timed_out) return "timeout";
  if (!row.repeats()) return "varies";
  return way.same ? "yes" : "NO";
}

// Empty if all runs did what they should.
std::string why_wrong(const ProgramRow& row, const std::vector<Way>& all) {
  if (row.ways[0].timed_out || row.ways[0].code != 0)
    return fmt::format("{} fails without Wherry, with code {}", row.program->name,
                       row.ways[0].code);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const WayResult& way = row.ways[i];
    if (way.timed_out)
      return fmt::format("{} ({}) did not end in {} s", row.program->name, all[i].name,
                         run_limit.count());
    if (way.code != 0)
      return fmt::format("{} ({}) failed with code {}", row.program->name, all[i].name, way.code);
    if (row.repeats() && !way.same)
      return fmt::format("{} ({}) has other results", row.program->name, all[i].name);
  }
  return {};
}

std::string apt_line(const Program& program) {
  return "apt-get install " + program.packages;
}

std::string as_text(const std::vector<ProgramRow>& rows, const std::vector<Way>& all,
                    const ProgramBenchOptions& options) {
  std::string text = fmt::format(
      "{}\nmedians of {} rounds; x: by the run without Wherry of the same round; "
      "cpu: the same of CPU time\n\n"
      "{:<12}{:>11}",
      describe_machine(), options.rounds, "", all[0].name);
  for (std::size_t i = 1; i < all.size(); ++i)
    text += fmt::format("{:>11}{:>7}{:>7}", all[i].name, "x", "cpu");
  text += fmt::format("{:>10}{:>9}  {}\n", "managed", "faults", "same");
  for (const ProgramRow& row : rows) {
    text += fmt::format("{:<12}", row.program->name);
    if (row.ways.empty()) {
      text += fmt::format(" not installed: {}\n", apt_line(*row.program));
      continue;
    }
    text += fmt::format("{:>9.2f} s", quantile(row.ways[0].seconds, 0.5));
    std::set<std::string> same;
    for (std::size_t i = 1; i < all.size(); ++i) {
      const WayResult& way = row.ways[i];
      text += fmt::format("{:>9.2f} s{:>7.2f}{:>7.2f}", quantile(way.seconds, 0.5),
                          quantile(way.ratios, 0.5), quantile(way.cpu_ratios, 0.5));
      same.insert(agreement(row, row.ways[i]));
    }
    text += fmt::format("{:>6.0f} MiB{:>9}  {}\n", row.managed_mib(),
                        row.report.value("faults", std::uint64_t{0}), fmt::join(same, ", "));
  }
  return text;
}

Json to_json(const ProgramRow& row, const std::vector<Way>& all) {
  const Program& program = *row.program;
  Json json{{"program", program.name},
            {"meaning", program.meaning},
            {"packages", program.packages},
            {"installed", !row.ways.empty()}};
  if (row.ways.empty()) return json;
  json["repeats"] = row.repeats();
  json["managed_mib"] = row.managed_mib();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const WayResult& way = row.ways[i];
    Json& one = json[all[i].name] = {{"seconds", quantile(way.seconds, 0.5)},
                                     {"all_seconds", way.seconds},
                                     {"cpu_seconds", quantile(way.cpu_seconds, 0.5)},
                                     {"all_cpu_seconds", way.cpu_seconds},
                                     {"code", way.code},
                                     {"timed_out", way.timed_out},
                                     {"same", way.same}};
    if (i != 0) {
      one["ratio"] = quantile(way.ratios, 0.5);
      one["cpu_ratio"] = quantile(way.cpu_ratios, 0.5);
    }
    if (i > 1) one["trace_bytes"] = way.trace_bytes;
  }
  json["report"] = row.report;
  return json;
}

std::string as_json(const std::vector<ProgramRow>& rows, const std::vector<Way>& all,
                    const ProgramBenchOptions& options) {
  const bench::MachineFacts machine = bench::machine_facts();
  Json json{{"machine",
             {{"cpu", machine.cpu},
              {"cpus", machine.cpus},
              {"memory_mib", machine.memory_mib},
              {"kernel", machine.kernel}}},
            {"rounds", options.rounds},
            {"rows", Json::array()}};
  for (const ProgramRow& row : rows) json["rows"].push_back(to_json(row, all));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string listing(const std::vector<const Program*>& chosen, bool json) {
  Json all = Json::array();
  std::string text;
  for (const Program* program : chosen) {
    all.push_back(to_json(ProgramRow{program, {}, {}}, {}));
    all.back()["installed"] = is_installed(*program);
    text += fmt::format("{:<12}{:<52}{}\n", program->name, program->meaning,
                        is_installed(*program) ? "installed" : apt_line(*program));
  }
  return json ? all.dump(2) + "\n" : text;
}

// If a pattern fits no program, prints an error line and returns nullopt.
std::optional<std::vector<const Program*>> choose(const std::vector<std::string>& patterns) {
  const auto fits = [](const std::string& pattern, const Program& program) {
    return ::fnmatch(pattern.c_str(), program.name.c_str(), 0) == 0;
  };
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(programs(), [&](const Program& one) { return fits(pattern, one); }))
      continue;
    std::vector<std::string> names;
    for (const Program& program : programs()) names.push_back(program.name);
    complain(fmt::format("no program fits '{}': there are {}", pattern, fmt::join(names, ", ")));
    return std::nullopt;
  }
  std::vector<const Program*> chosen;
  for (const Program& program : programs())
    if (patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
          return fits(pattern, program);
        }))
      chosen.push_back(&program);
  return chosen;
}

// Gives all programs the same environment.
void set_environment() {
  ::setenv("LC_ALL", "C", 1);
  ::setenv("OMP_NUM_THREADS", "2", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

}  // namespace

int run_bench_programs(const ProgramBenchOptions& options) {
  const auto chosen = choose(options.only);
  if (!chosen) return exit_usage;
  if (options.list) return print_out(listing(*chosen, options.json));
  set_environment();
  const std::vector<Way> all = ways(options);
  std::vector<ProgramRow> rows;
  std::vector<std::string> errors;
  Progress progress;
  const bool runs_any =
      std::ranges::any_of(*chosen, [](const Program* one) { return is_installed(*one); });
  if (runs_any && options.warm > 0)
    warm_up_memory(std::min(options.warm, impl::available_memory() / 2), progress);
  for (const Program* program : *chosen) {
    progress.enter_step(rows.size() + 1, chosen->size());
    if (!is_installed(*program)) {
      rows.push_back({program, {}, {}});
      continue;
    }
    const TemporaryFolder folder("wherry-bench");
    rows.push_back(measure(*program, folder.path() / "in", options, progress));
    if (const std::string wrong = why_wrong(rows.back(), all); !wrong.empty())
      errors.push_back(wrong);
  }
  const int printed =
      print_out(options.json ? as_json(rows, all, options) : as_text(rows, all, options));
  for (const std::string& error : errors) complain(error);
  return errors.empty() ? printed : exit_failed;
}

}  // namespace wherry::tool
