// The stacks of all threads of a process that hangs.
#pragma once

#include <sys/types.h>

#include <string>

namespace wherry::test {

// As gdb tells them, if there is one; else where Linux has each thread. Stops the process for up to
// a minute.
std::string stacks_of(pid_t process);

}  // namespace wherry::test
