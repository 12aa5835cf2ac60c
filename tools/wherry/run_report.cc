#include "run_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>

#include "base/page.h"
#include "byte_text.h"
#include "complain.h"
#include "os/process/permissions.h"
#include "os/process/userfaultfd_remedy.h"

namespace wherry::tool {
namespace {

using nlohmann::json;

// The texts for Reason (lib/run/managed_regions.h), in its order.
constexpr std::array reasons{"mprotect",
                             "mremap",
                             "mlock",
                             "a mapping at its place",
                             "madvise or mbind",
                             "fork",
                             "a thread's stack or a lock that Linux keeps in it"};

// Adds numbers; arrays element by element, objects member by member.
void add(json& to, const json& from) {
  if (to.is_null()) {
    to = from;
  } else if (from.is_object()) {
    for (const auto& [name, value] : from.items()) add(to[name], value);
  } else if (from.is_array()) {
    for (std::size_t i = 0; i < from.size(); ++i) add(to[i], from[i]);
  } else {
    to = to.get<std::uint64_t>() + from.get<std::uint64_t>();
  }
}

void say(const std::string& line) {
  fmt::print(stderr, "wherry run: {}\n", line);
}

std::string count_of(std::uint64_t count, const char* what, const char* more = "s") {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : more);
}

}  // namespace

RunReport RunReport::read(const std::string& path) {
  RunReport report;
  std::uint64_t processes = 0;
  std::uint64_t unfinished = 0;
  std::uint64_t not_started = 0;
  std::string refusal;
  std::map<std::int64_t, int> open;  // how often each process has started and not finished
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    json one = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!one.is_object()) continue;  // empty, or cut off
    int& starts = open[one.value("process", std::int64_t{0})];
    one.erase("process");
    if (one.contains("started")) {
      ++starts;
    } else if (one.contains("not_started")) {
      ++not_started;
    } else {
      if (const std::string why = one.value("refusal", ""); refusal.empty()) refusal = why;
      one.erase("refusal");
      add(report.sum_, one);
      ++processes;
      --starts;
    }
  }
  for (const auto& [process, starts] : open)
    unfinished += static_cast<unsigned>(std::max(starts, 0));
  if (report.sum_.is_null()) report.sum_ = json::object();
  report.sum_["processes"] = processes;
  report.sum_["unfinished"] = unfinished;
  report.sum_["not_started"] = not_started;
  report.sum_["refusal"] = refusal;
  return report;
}

void RunReport::print(bool by_signal) const {
  const auto processes = sum_.at("processes").get<std::uint64_t>();
  const auto unfinished = sum_.at("unfinished").get<std::uint64_t>();
  if (unfinished != 0)
    say(
        fmt::format("{} had managed memory and ended without exit handlers (a signal, _exit or "
                    "exec), so what they did is not in the summary",
                    count_of(unfinished, "process", "es")));
  const auto not_started = sum_.at("not_started").get<std::uint64_t>();
  if (not_started != 0)
    say(
        fmt::format("in {} the library could not start, so all memory was ordinary; the lines "
                    "above say why",
                    count_of(not_started, "process", "es")));
  if (processes == 0) {
    if (unfinished + not_started == 0)
      say(by_signal ? "a signal ended the program, so there is no summary"
                    : "no allocation was large enough to be managed (--min-size)");
    return;
  }
  const auto number = [&](const char* name) { return sum_.at(name).get<std::uint64_t>(); };
  say(fmt::format(
      "{} in {} and {}, at most {:.0f} MiB at a time in {}; {} took {:.2f} s", "managed memory",
      count_of(number("objects"), "allocation"), count_of(number("mappings"), "mapping"),
      static_cast<double>(number("most_bytes")) / mebibyte, count_of(processes, "process", "es"),
      count_of(number("faults"), "fault"), static_cast<double>(number("service_ns")) * 1e-9));
  const json& processors = sum_.at("processors");
  for (std::size_t i = 0; i < processors.size(); ++i) {
    const auto pages = [&](const char* name) {
      return processors[i].at(name).get<double>() * page_mebibytes;
    };
    if (pages("populated") + pages("migrated_in") + pages("mapped_remotely") == 0) continue;
    say(fmt::format(
        "{}: {:.0f} MiB created, {:.0f} moved in, {:.0f} moved out ({:.0f} evicted), "
        "{:.0f} mapped from elsewhere",
        i == 0 ? "host" : fmt::format("device {}", i - 1), pages("populated"), pages("migrated_in"),
        pages("migrated_out"), pages("evicted"), pages("mapped_remotely")));
  }
  for (std::size_t i = 0; i < reasons.size(); ++i)
    if (const auto times = sum_.at("made_private")[i].get<std::uint64_t>(); times != 0)
      say(fmt::format("{} became ordinary memory because of {}", count_of(times, "managed range"),
                      reasons[i]));
  if (const std::uint64_t forks = number("forks"); forks != 0)
    say(fmt::format("{} got copies of {:.0f} MiB", count_of(forks, "forked child", "ren"),
                    static_cast<double>(number("fork_bytes")) / mebibyte));
  if (number("helped") != 0)
    say(fmt::format(
        "{} ended in EFAULT on managed memory; those that a program makes without the C library's "
        "functions are not counted (docs/run.md)",
        count_of(number("refused_calls"), "system call")));
  if (const std::uint64_t refused = number("refused"); refused != 0)
    say(fmt::format("{} did not fit, and stayed ordinary memory: {}",
                    count_of(refused, "allocation"), sum_.at("refusal").get<std::string>()));
  for (const std::string& line : advice()) say("try: " + line);
}

std::vector<std::string> RunReport::advice() const {
  std::vector<std::string> lines;
  const json& processors = sum_.at("processors");
  double host_pages = 0, device_pages = 0, moved = 0, evicted = 0, held = 0;
  for (std::size_t i = 0; i < processors.size(); ++i) {
    const double created = processors[i].at("populated").get<double>();
    (i == 0 ? host_pages : device_pages) += created + processors[i].at("migrated_in").get<double>();
    moved += processors[i].at("migrated_in").get<double>();
    evicted += processors[i].at("evicted").get<double>();
    held += processors[i].at("held").get<double>();
  }
  if (device_pages == 0 && host_pages != 0)
    lines.push_back(
        "--attach, if some threads are to use a device's memory: none has counted as a device");
  if (evicted != 0)
    lines.push_back("a larger capacity in --devices: memory was evicted from a full device");
  if (sum_.at("thrashing").get<std::uint64_t>() != 0)
    lines.push_back("--policy adaptive: processors took the same pages from each other");
  if (held != 0)
    lines.push_back(
        fmt::format("I/O on memory while no thread of a device uses it: {} could not move, "
                    "because a system call, a pipe or another process held them "
                    "(docs/system-calls.md)",
                    bytes_text(static_cast<std::uint64_t>(held) * impl::page_size)));
  if (sum_.at("refused_calls").get<std::uint64_t>() != 0)
    lines.push_back(fmt::format(
        "{}, so that Linux finds memory that is elsewhere in all system calls",
        impl::userfaultfd_remedy(impl::permissions(), impl::unprivileged_userfaultfd())));
  if (moved > 2 * (host_pages + device_pages - moved))
    lines.push_back("--record FILE, then wherry replay FILE: most memory moved more than once");
  return lines;
}

bool RunReport::write(const std::string& path) const {
  std::ofstream file(path);
  file << sum_.dump(2) << '\n';
  if (file.flush()) return true;
  complain(fmt::format("cannot write {}", path));
  return false;
}

}  // namespace wherry::tool
