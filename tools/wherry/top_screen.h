// The screen of `wherry top`: a program's status, again and again, on the terminal.
#pragma once

#include "program_status.h"

namespace wherry::tool {

enum class ScreenEnd {
  user,      // the user pressed q
  program,   // the program has ended
  terminal,  // the terminal is gone, or cannot show a full screen
  ncurses,   // the tool was built without that library
};

// Shows the program until one of these. `seconds`: between two updates. Uses stdin and stdout,
// which are a terminal. One thread; once per process. Throws std::bad_alloc.
ScreenEnd show_on_screen(const StatusReader& reader, double seconds);

}  // namespace wherry::tool
