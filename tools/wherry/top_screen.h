// The screen of `wherry top`: shows a program's status on the terminal and updates it.
#pragma once

#include "program_status.h"

namespace wherry::tool {

enum class ScreenEnd {
  user,      // the user pressed q
  program,   // the program has ended
  terminal,  // the terminal is gone, or cannot show a full screen
  ncurses,   // the tool was built without that library
};

// Shows the program until one of these events. `seconds`: between two updates. Uses stdin and
// stdout, which are a terminal. May be called once per process. Throws std::bad_alloc.
ScreenEnd show_on_screen(const StatusReader& reader, double seconds);

}  // namespace wherry::tool
