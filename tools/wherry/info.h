// `wherry info`: what the kernel offers and how to get what is missing, nodes, devices, pools and
// limits.
#pragma once

namespace wherry::tool {

// Starts the library to look at its pools and devices; what cannot be started is part of the
// report. Returns the exit code: exit_failed when programs that use the library could not start
// here either.
int run_info(bool json);

}  // namespace wherry::tool
