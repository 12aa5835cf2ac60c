// `wherry info`: shows the kernel's features and how to enable missing ones, NUMA nodes, devices,
// pools and limits.
#pragma once

namespace wherry::tool {

// Starts the library to report its pools and devices; a failure to start is part of the report.
// Returns the exit code: exit_failed if programs that use the library could not start here either.
int run_info(bool json);

}  // namespace wherry::tool
