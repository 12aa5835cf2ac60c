#include "top.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

#include "complain.h"
#include "program_status.h"
#include "top_screen.h"
#include "top_view.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr double seconds_min = 0.1;
constexpr double seconds_max = 3600;

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string has_ended(pid_t pid) {
  return fmt::format("process {} has ended", pid);
}

int print_once(const StatusReader& reader, bool json) {
  const auto status = reader.read();
  if (!status) return complain(has_ended(reader.pid()));
  if (json) return print_out(text_of(to_json(*status)));
  constexpr auto all = std::numeric_limits<std::size_t>::max();
  std::string text;
  for (const std::string& line : to_lines(at_start(*status), *status, all, all))
    text += line + "\n";
  return print_out(text);
}

// Lists the programs that can be shown.
int list(const std::vector<pid_t>& pids, bool json) {
  std::string text =
      fmt::format("{:>8}  {:<18}{:>10}  {}\n", "PID", "program", "seconds", "policy");
  Json rows = Json::array();
  for (const pid_t pid : pids) {
    const auto reader = StatusReader::open(pid);
    if (!std::holds_alternative<StatusReader>(reader)) continue;  // it has ended
    const auto status = std::get<StatusReader>(reader).read();
    if (!status) continue;
    text += fmt::format("{:>8}  {:<18}{:>10.0f}  {}\n", pid, status->program, status->seconds(),
                        status->policy_in_force);
    rows.push_back({{"pid", pid},
                    {"program", status->program},
                    {"seconds", status->seconds()},
                    {"policy_in_force", status->policy_in_force}});
  }
  return print_out(json ? text_of(rows) : text);
}

int show(pid_t pid, const TopOptions& options) {
  const auto opened = StatusReader::open(pid);
  if (const auto* wrong = std::get_if<std::string>(&opened)) return complain(*wrong);
  const auto& reader = std::get<StatusReader>(opened);
  if (options.once) return print_once(reader, options.json);
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    return complain("the live view needs a terminal: use --once");
  switch (show_on_screen(reader, options.seconds)) {
    case ScreenEnd::terminal:
      return complain("the terminal cannot show a full screen (TERM): use --once");
    case ScreenEnd::ncurses:
      return complain("this tool was built without ncurses, which the live view needs: use --once");
    case ScreenEnd::program:
      (void)complain(has_ended(pid));
      break;
    case ScreenEnd::user:
      break;
  }
  return exit_ok;
}

}  // namespace

CLI::App* add_top(CLI::App& app, TopOptions& options) {
  CLI::App* top =
      app.add_subcommand("top",
                         "Watch a running program that uses Wherry: its pools, what moves, "
                         "and the memory where most happens");
  top->add_option("pid", options.pid,
                  "The process; by default the only one of this user, or a list of them")
      ->type_name("PID")
      ->check(CLI::Range(1, std::numeric_limits<pid_t>::max()));
  top->add_option("--interval", options.seconds, "Seconds between two updates")
      ->type_name("SECONDS")
      ->check(CLI::Range(seconds_min, seconds_max))
      ->capture_default_str();
  CLI::Option* once =
      top->add_flag("--once", options.once, "Print one report, with averages since its start");
  top->add_flag("--json", options.json,
                "Print JSON, with counters since the start; without PID always the list")
      ->needs(once);
  return top;
}

int run_top(const TopOptions& options) {
  if (options.pid != 0) return show(options.pid, options);
  const std::vector<pid_t> pids = programs_with_status();
  if (options.json) return list(pids, true);
  if (pids.empty())
    return complain("no program of this user uses Wherry now (root sees those of all users)");
  return pids.size() == 1 ? show(pids.front(), options) : list(pids, false);
}

}  // namespace wherry::tool
