// The stacks of all threads of a hanging process.
#pragma once

#include <sys/types.h>

#include <string>

namespace wherry::test {

// Uses gdb if it is installed, otherwise /proc. Stops the process for up to a minute.
std::string stacks_of(pid_t process);

}  // namespace wherry::test
