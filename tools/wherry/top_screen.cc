#include "top_screen.h"

#include <curses.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <string>
#include <vector>

#include "top_view.h"

namespace wherry::tool {
namespace {

constexpr const char* help = "q: quit";

// The terminal in the mode for full screens, until this object is destroyed. Signals that end this
// process restore it, too (ncurses does that).
class Screen {
 public:
  Screen() : screen_(::newterm(nullptr, stdout, stdin)) {
    if (screen_ == nullptr) return;
    ::cbreak();
    ::noecho();
    ::curs_set(0);
    ::keypad(::stdscr, TRUE);  // a change of the window's size is a key, too
    ::nodelay(::stdscr, TRUE);
  }
  ~Screen() {
    if (screen_ == nullptr) return;
    ::endwin();
    ::delscreen(screen_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  explicit operator bool() const { return screen_ != nullptr; }
  static std::size_t columns() { return static_cast<std::size_t>(std::max(COLS, 1)); }
  static std::size_t lines() { return static_cast<std::size_t>(std::max(LINES - 1, 1)); }

  static void show(const std::vector<std::string>& text) {
    ::erase();
    for (std::size_t i = 0; i < text.size(); ++i) put(static_cast<int>(i), text[i].c_str());
    put(LINES - 1, help);
    ::refresh();
  }
  enum class Wish {
    none,
    redraw,  // the terminal has another size
    quit
  };
  // Returns what the user or the terminal asked for since the last call.
  static Wish wish() {
    Wish wish = Wish::none;
    for (int key = ::getch(); key != ERR; key = ::getch()) {
      if (key == 'q' || key == 'Q') return Wish::quit;
      if (key == KEY_RESIZE) wish = Wish::redraw;
    }
    return wish;
  }

 private:
  static void put(int line, const char* text) {
    if (::move(line, 0) != ERR) ::addstr(text);
  }

  SCREEN* const screen_;
};

}  // namespace

ScreenEnd show_on_screen(const StatusReader& reader, double seconds) {
  // Lets ncurses show names that are not ASCII.
  ::setlocale(LC_CTYPE, "");
  const Screen screen;
  if (!screen) return ScreenEnd::terminal;
  const auto interval =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
  using Clock = std::chrono::steady_clock;
  std::optional<ProgramStatus> before;
  for (auto next = Clock::now();;) {
    const bool due = Clock::now() >= next;
    if (due) {
      auto now = reader.read();
      if (!now) return ScreenEnd::program;
      // The first screen has the averages since the start.
      Screen::show(
          to_lines(before ? *before : at_start(*now), *now, Screen::columns(), Screen::lines()));
      before = std::move(now);
      next = std::max(next + interval, Clock::now());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {reader.end(), POLLIN, 0}};
    (void)::poll(waits, std::size(waits), static_cast<int>(std::max<std::int64_t>(left, 0)));
    if ((waits[0].revents & (POLLHUP | POLLERR)) != 0) return ScreenEnd::terminal;
    const Screen::Wish wish = Screen::wish();
    if (wish == Screen::Wish::quit) return ScreenEnd::user;
    if (wish == Screen::Wish::redraw || waits[1].revents != 0) next = Clock::now();
  }
}

}  // namespace wherry::tool
