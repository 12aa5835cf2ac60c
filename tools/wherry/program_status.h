// What another program that uses Wherry shows of itself (memory/status_memory.h), copied at one
// moment. The program is not asked and need not run: it may be stopped, busy, or about to end.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memory/status_memory.h"
#include "os/files/fd.h"

namespace wherry::tool {

// The names of PoolStatus::counters, in their order: first the counters that wherryStats has for
// each processor, then those of which it has only sums.
inline constexpr auto counter_names = std::to_array<std::string_view>({
#define WHERRY_NAME(name) #name,
    WHERRY_PROCESSOR_COUNTERS(WHERRY_NAME) WHERRY_LATER_PROCESSOR_COUNTERS(WHERRY_NAME)
        WHERRY_SUMMED_COUNTERS(WHERRY_NAME)
#undef WHERRY_NAME
});

struct PoolStatus {
  impl::ShownProcessor about;
  std::uint64_t used_bytes = 0;
  std::array<std::uint64_t, counter_names.size()> counters{};

  // Requires: `name` is in counter_names.
  std::uint64_t counter(std::string_view name) const {
    const auto found = std::ranges::find(counter_names, name);
    return counters[static_cast<std::size_t>(found - counter_names.begin())];
  }
};

struct BlockStatus {
  std::uint64_t block = 0;  // its number in the arena
  std::uint64_t faults = 0;
  std::uint64_t arrived = 0;  // pages
  std::uint64_t evicted = 0;  // pages
};

struct NamedMemory {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // from the arena's base, or impl::not_in_arena
  std::string name;
};

struct ProgramStatus {
  pid_t pid = -1;
  std::string program;  // the name of its file, as Linux has it; printable
  bool stopped = false;
  std::string version, trap, policy, policy_in_force;
  std::uint64_t arena_base = 0;
  std::uint64_t variables_from = 0;  // blocks from this number on hold managed variables
  std::uint64_t time_ns = 0;         // when this was copied
  std::uint64_t start_ns = 0;        // when the library started; the same clock
  std::vector<PoolStatus> pools;     // the host first
  std::vector<BlockStatus> blocks;   // those with any activity, by number
  std::vector<NamedMemory> names;    // by offset
  std::uint64_t names_left_out = 0;

  double seconds() const { return static_cast<double>(time_ns - start_ns) * 1e-9; }
};

class StatusReader {
 public:
  // Opens the status of a process, or returns one line that says why it cannot. Throws
  // std::bad_alloc.
  static std::variant<StatusReader, std::string> open(pid_t pid);

  // Returns nullopt if the program has ended. Throws std::bad_alloc.
  std::optional<ProgramStatus> read() const;
  pid_t pid() const { return pid_; }
  // A descriptor that is readable once the program has ended.
  int end() const { return end_.get(); }

 private:
  StatusReader(pid_t pid, impl::Fd end, impl::Fd file, std::uint32_t processors)
      : pid_(pid), end_(std::move(end)), file_(std::move(file)), processors_(processors) {}

  bool has_ended() const;
  // Whether the process still has this status file open.
  bool is_shown() const;
  void read_names(ProgramStatus& status) const;
  void read_blocks(ProgramStatus& status, std::uint64_t count) const;

  pid_t pid_;
  impl::Fd end_;
  impl::Fd file_;
  // Read by open() only, because a faulty program may change it later.
  std::uint32_t processors_;
};

// The processes that use Wherry and that this user may look at, in ascending order. Throws
// std::bad_alloc.
std::vector<pid_t> programs_with_status();

}  // namespace wherry::tool
