#include "progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "first_columns.h"

namespace wherry::tool {
namespace {

constexpr std::chrono::milliseconds interval{200};
constexpr std::size_t usual_columns = 80;
// Moves to the first column and erases the line, on a VT100 and all its successors.
constexpr const char* erase = "\r\033[K";

bool is_permitted = false;
// Whether stderr shows a progress line, which the next one replaces.
bool is_shown = false;

std::size_t columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : usual_columns;
}

void put(const std::string& line) {
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

void permit_progress() {
  is_permitted = ::isatty(STDERR_FILENO) != 0;
}

void erase_progress() {
  if (!is_shown) return;
  put(erase);
  is_shown = false;
}

Progress::~Progress() {
  erase_progress();
}

void Progress::enter_step(std::size_t number, std::size_t steps) {
  step_ = fmt::format("{} of {}: ", number, steps);
}

void Progress::show(std::string_view what) {
  if (!is_permitted) return;
  shown_ = Clock::now();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(shown_ - begun_).count();
  const std::string line = fmt::format("{}{} ({} s)", step_, what, seconds);
  // A line of full width would move the cursor to the next line.
  put(erase + first_columns(line, columns() - 1));
  is_shown = true;
}

void Progress::show_part(std::string_view what, std::uint64_t done, std::uint64_t total) {
  if (Clock::now() - shown_ < interval) return;
  if (total == 0) return show(what);
  const double part = static_cast<double>(done) / static_cast<double>(total);
  show(fmt::format("{}: {:.0f} %", what, 100 * part));
}

}  // namespace wherry::tool
