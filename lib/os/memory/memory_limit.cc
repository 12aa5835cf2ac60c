#include "os/memory/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

namespace wherry::impl {
namespace {

// Version 1 of cgroups expresses "no limit" as the largest number of whole pages.
constexpr std::uint64_t none_from = std::uint64_t{1} << 62;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Returns nullopt if there is no such file, or if it contains "max".
std::optional<std::uint64_t> read_number(const std::string& path) {
  const std::string text = read_text(path);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() || number >= none_from) return std::nullopt;
  return number;
}

std::uint64_t cached_files(const std::string& stat_path, std::string_view prefix) {
  std::ifstream file(stat_path);
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  for (std::string name; file >> name >> value;)
    if (std::string_view(name).starts_with(prefix) &&
        (name.substr(prefix.size()) == "inactive_file" ||
         name.substr(prefix.size()) == "active_file"))
      bytes += value;
  return bytes;
}

bool contains_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// The file names of one version of cgroups.
struct Version {
  const char* file_system;
  std::vector<const char*> limits;
  const char* usage;
  const char* stat_prefix;  // prefix of the subtree's totals in memory.stat
};

const Version& version(bool second) {
  static const Version versions[] = {
      {"cgroup",
       {"memory.limit_in_bytes", "memory.soft_limit_in_bytes"},
       "memory.usage_in_bytes",
       "total_"},
      {"cgroup2", {"memory.max", "memory.high"}, "memory.current", ""}};
  return versions[second ? 1 : 0];
}

// Where a cgroup hierarchy is mounted, and which of its groups is the root of the mount.
struct Mount {
  std::string group;
  std::string folder;
};

std::optional<Mount> find_mount(const std::string& mounts, const Version& of, bool second) {
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto place = words_of(line.substr(0, dash));
    const auto what = words_of(line.substr(dash + 3));
    if (place.size() < 5 || what.size() < 3 || what[0] != of.file_system) continue;
    if (second || contains_word(what[2], "memory")) return Mount{place[3], place[4]};
  }
  return std::nullopt;
}

// Lowers `tightest` to the limits of this group.
void look_at(const std::string& folder, const Version& of, std::optional<MemoryLimit>& tightest) {
  for (const char* name : of.limits) {
    const auto limit = read_number(folder + "/" + name);
    if (!limit) continue;
    const std::uint64_t usage = read_number(folder + "/" + of.usage).value_or(0);
    const std::uint64_t cached = cached_files(folder + "/memory.stat", of.stat_prefix);
    const std::uint64_t used = usage - std::min(usage, cached);
    const std::uint64_t available = *limit - std::min(*limit, used);
    if (!tightest) tightest = MemoryLimit{*limit, available, folder + "/" + name};
    if (*limit < tightest->bytes) {
      tightest->bytes = *limit;
      tightest->file = folder + "/" + name;
    }
    tightest->available = std::min(tightest->available, available);
  }
}

void look_at_hierarchy(const std::string& root, const std::string& group, bool second,
                       std::optional<MemoryLimit>& tightest) {
  const Version& of = version(second);
  const auto mount = find_mount(read_text(root + "/proc/self/mountinfo"), of, second);
  if (!mount) return;
  // A group outside the mounted part, as in a container that sees the host's names, is treated as
  // the mount's root.
  std::string below;
  if (mount->group == "/")
    below = group;
  else if (group.starts_with(mount->group))
    below = group.substr(mount->group.size());
  if (below.find("..") != std::string::npos) below.clear();
  while (!below.empty() && below.back() == '/') below.pop_back();
  const std::string top = root + mount->folder;
  for (;; below.resize(below.rfind('/'))) {
    look_at(top + below, of, tightest);
    if (below.find('/') == std::string::npos) break;
  }
}

}  // namespace

std::optional<MemoryLimit> read_memory_limit(const std::string& root) {
  std::optional<MemoryLimit> tightest;
  std::istringstream lines(read_text(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (unified || contains_word(controllers, "memory"))
      look_at_hierarchy(root, line.substr(second + 1), unified, tightest);
  }
  return tightest;
}

std::uint64_t available_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::uint64_t available = 0;
  for (std::string line; available == 0 && std::getline(file, line);) {
    const auto words = words_of(line);
    if (words.size() > 1 && words[0] == "MemAvailable:")
      available = std::strtoull(words[1].c_str(), nullptr, 10) * 1024;
  }
  const auto limit = read_memory_limit(root);
  return limit ? std::min(available, limit->available) : available;
}

}  // namespace wherry::impl
