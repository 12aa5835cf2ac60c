// Shows the progress of a long command: one line on stderr, rewritten in place and erased at the
// end. There is no line before permit_progress(). Not thread-safe; a forked child may write the
// line while its parent waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace wherry::tool {

class Progress {
 public:
  Progress() = default;
  // Erases the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Lines begin with "3 of 9: " from now on.
  void enter_step(std::size_t number, std::size_t steps);
  // Shows "WHAT (12 s)" at once, with the time since this object was made. The line is cut at the
  // terminal's width.
  void show(std::string_view what);
  // Shows "WHAT: 37 % (12 s)", at most five times a second, so that it may be called often.
  // `total`: 0 shows no percentage.
  void show_part(std::string_view what, std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string step_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = begun_;
};

// Shows lines from now on if stderr is a terminal. The caller knows that the terminal can erase
// lines.
void permit_progress();
// Erases the line if there is one. To be called before other text goes to the terminal.
void erase_progress();

}  // namespace wherry::tool
