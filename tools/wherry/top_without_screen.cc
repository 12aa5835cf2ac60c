// Replaces top_screen.cc where ncurses is not installed.
#include "top_screen.h"

namespace wherry::tool {

ScreenEnd show_on_screen(const StatusReader&, double) {
  return ScreenEnd::ncurses;
}

}  // namespace wherry::tool
