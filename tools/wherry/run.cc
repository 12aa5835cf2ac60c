#include "run.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <variant>

#include "base/environment.h"
#include "complain.h"
#include "installation.h"
#include "machine/policy_source.h"
#include "machine/topology_text.h"
#include "os/process/permissions.h"
#include "preloadable.h"
#include "program_trace.h"
#include "run_report.h"
#include "started_program.h"
#include "temporary_folder.h"
#include "trap/trap_choice.h"
#include "trial_file.h"

namespace wherry::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t min_size_min = 64 << 10;

bool has_several_nodes() {
  return fs::exists("/sys/devices/system/node/node1");
}

// Adds kind=coherent to each device that has no kind: threads of the program can run on no other
// kind.
std::string with_kinds(std::string_view devices) {
  std::string text;
  while (!devices.empty()) {
    const std::string_view device = devices.substr(0, devices.find(';'));
    devices.remove_prefix(std::min(devices.size(), device.size() + 1));
    if (!text.empty()) text += ';';
    text += device;
    if (device.find("kind") == std::string_view::npos) text += ",kind=coherent";
  }
  return text;
}

// Why `wherry run` cannot use the devices; empty if it can.
std::string why_not_devices(const std::string& devices) {
  const auto parsed = impl::parse_devices(devices);
  if (const auto* wrong = std::get_if<std::string>(&parsed)) return *wrong;
  for (const auto& device : std::get<std::vector<impl::DeviceRequest>>(parsed))
    if (device.kind == impl::DeviceKind::isolated)
      return "--devices: the program's threads cannot run on an isolated device; use kind=coherent";
  return {};
}

// Whether it is host, by-cpu or the number of a device.
bool is_role(std::string_view text) {
  return text == "host" || text == "by-cpu" ||
         (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos);
}

std::string why_not_rule(const std::string& rule) {
  const std::size_t colon = rule.rfind(':');
  const std::string_view condition = std::string_view(rule).substr(0, colon);
  const bool is_whole =
      colon == std::string::npos
          ? is_role(rule)
          : is_role(std::string_view(rule).substr(colon + 1)) &&
                (condition.starts_with("name=") ||
                 (condition.starts_with("index=") && condition.size() > 6 &&
                  condition.find_first_not_of("0123456789-", 6) == std::string_view::npos));
  if (is_whole && rule.find_first_of(",;") == std::string::npos) return {};
  return fmt::format(
      "--attach {}: use by-cpu, host, name=PATTERN:WHO or index=N[-M]:WHO, where WHO is host, "
      "by-cpu or the number of a device",
      rule);
}

// One line that says what is wrong; empty if all is right.
std::string why_not(const RunOptions& options, const std::string& devices) {
  if (options.min_size < min_size_min) return "--min-size: the least is 64K";
  if (!devices.empty())
    if (const std::string wrong = why_not_devices(devices); !wrong.empty()) return wrong;
  for (const std::string& rule : options.attach)
    if (const std::string wrong = why_not_rule(rule); !wrong.empty()) return wrong;
  if (!options.policy.empty()) {
    const auto source = impl::find_policy(options.policy);
    if (const auto* wrong = std::get_if<std::string>(&source)) return "--policy: " + *wrong;
  }
  if (!options.report.empty())
    if (const int error = try_create_in_place_of(options.report))
      return fmt::format("cannot write {}: {}", options.report,
                         error == EINVAL ? "it is no regular file" : std::strerror(error));
  return {};
}

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

// Whether the trap serves faults of system calls. True if no trap can be chosen: the library
// reports that in the program.
bool serves_system_calls() {
  const auto trap = impl::choose_trap(impl::environment("WHERRY_TRAP"), impl::permissions(), {});
  const auto* const chosen = std::get_if<impl::TrapChoice>(&trap);
  return chosen == nullptr || impl::serves_system_calls(chosen->mode);
}

void set_if_unset(const char* name, const char* value) {
  ::setenv(name, value, 0);
}

// Sets defaults for traps that do not serve faults of system calls. Without samples, pages that do
// not move keep their page-table entries, so that other processes, and system calls that no wrapper
// sees, find them. With these settings of UCX no process copies a message out of another one's
// memory.
void set_environment_of_helped(const RunOptions& options) {
  const bool threads_differ = has_several_nodes() || !options.attach.empty();
  if (!threads_differ && options.sample == 0) set_if_unset("WHERRY_SAMPLING", "0");
  set_if_unset("UCX_RNDV_THRESH", "inf");
  set_if_unset("UCX_ZCOPY_THRESH", "inf");
}

// Sets the options for the library, in all processes of the program.
void set_environment(const RunOptions& options, const std::string& devices,
                     const std::string& reports) {
  if (!devices.empty())
    set("WHERRY_DEVICES", devices);
  else if (!has_several_nodes() && impl::environment("WHERRY_DEVICES").empty())
    set("WHERRY_DEVICES", "kind=coherent");
  if (!options.policy.empty()) set("WHERRY_POLICY", options.policy);
  if (options.sample != 0) set("WHERRY_SAMPLING", fmt::format("{:g},always", options.sample));
  if (!serves_system_calls()) set_environment_of_helped(options);
  set("WHERRY_RUN",
      fmt::format("min={};attach={};reports={};tool={};children={}", options.min_size,
                  options.attach.empty() ? "by-cpu" : joined(options.attach, ','), reports,
                  ::getpid(), options.record.find("%p") != std::string::npos ? 1 : 0));
}

void preload(const std::string& libraries) {
  const char* const others = impl::environment_value("LD_PRELOAD");
  set("LD_PRELOAD", others == nullptr ? libraries : libraries + ":" + others);
}

// The libraries to preload into the program; empty if a file is missing.
std::string libraries() {
  const Installation found = find_installation();
  const auto in = [&](const char* folder, const char* name) {
    const fs::path inside = found.library / folder / name;
    return (fs::exists(inside) ? inside : found.library / name).string();
  };
  std::vector<std::string> list{in("run", "libwherry_run.so.0")};
  if (!serves_system_calls()) list.push_back(in("io", "libwherry_io.so.0"));
  list.push_back(in("", "libwherry.so.0"));
  for (const std::string& file : list) {
    if (fs::exists(file)) continue;
    complain(fmt::format("{} is missing: build or install the shared libraries", file));
    return {};
  }
  return joined(list, ':');
}

}  // namespace

CLI::App* add_run(CLI::App& app, RunOptions& options) {
  CLI::App* run = app.add_subcommand(
      "run", "Run a program that knows nothing of Wherry, with its large allocations managed");
  run->add_option("--devices", options.devices, "The devices, as in WHERRY_DEVICES; coherent ones")
      ->type_name("LIST");
  run->add_option("--policy", options.policy, "The policy, as in WHERRY_POLICY")
      ->type_name("NAME[,PARAMETER=NUMBER...]");
  run->add_option("--min-size", options.min_size, "What is smaller stays ordinary memory")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE")
      ->default_str("1M");
  run->add_option("--attach", options.attach,
                  "Which threads count as a device: by-cpu (the default), host, "
                  "name=PATTERN:DEVICE or index=N[-M]:DEVICE; may be repeated, the first that "
                  "fits decides")
      ->allow_extra_args(false)
      ->type_name("RULE");
  run->add_option("--sample", options.sample,
                  "Record which pages each thread uses, for so many percent of its time")
      ->check(CLI::Range(0.1, 50.0))
      ->type_name("PERCENT");
  run->add_option("--record", options.record, "Write a trace, as wherry record does")
      ->type_name("FILE");
  run->add_option("--report", options.report, "Write the summary to a file, as JSON")
      ->type_name("FILE");
  run->add_flag("-q,--quiet", options.quiet, "Print no summary");
  run->add_option("program", options.program, "-- PROGRAM ARGS...")->type_name("")->required();
  return run;
}

int run_run(const RunOptions& options) {
  const std::string devices = with_kinds(options.devices);
  if (const std::string wrong = why_not(options, devices); !wrong.empty()) {
    complain(fmt::format("{}; {} was not run", wrong, options.program[0]));
    return exit_usage;
  }
  const std::string& name = options.program[0];
  if (const std::string why = why_not_preloadable(name); !why.empty()) {
    complain(fmt::format("{} runs without Wherry: {}", name, why));
    StartedProgram program(options.program);
    return program.process() < 0 ? program.complain_of_start() : program.wait().code;
  }
  const std::string preloaded = libraries();
  if (preloaded.empty()) return exit_usage;
  std::optional<ProgramTrace> trace;
  if (!options.record.empty()) {
    trace = ProgramTrace::begin(options.record, name);
    if (!trace) return exit_usage;
  }
  const TemporaryFolder folder("wherry-run");  // for the reports of the processes
  const std::string reports = folder.path() / "reports";
  set_environment(options, devices, reports);
  preload(preloaded);
  StartedProgram program(options.program);
  if (program.process() < 0) return program.complain_of_start();
  const StartedProgram::End end = program.wait();
  const RunReport report = RunReport::read(reports);
  if (!options.quiet) report.print(end.by_signal);
  int code = end.code;
  if (!options.report.empty() && !report.write(options.report) && code == 0) code = exit_failed;
  return trace && code == end.code ? trace->report(program.process(), end, /*kept=*/true) : code;
}

}  // namespace wherry::tool
