// What Linux says of itself and of the machine.
#pragma once

#include <cstddef>
#include <string>

namespace wherry::impl {

// For example "6.1.0-18-amd64"; empty if it is unknown.
std::string kernel_release();
// Compares the release, for defects of old versions that no call reports. False if it is unknown.
// Async-signal-safe.
bool linux_is_older_than(unsigned major, unsigned minor);
// The CPUs' model from /proc/cpuinfo; empty on architectures where Linux names none.
std::string cpu_model();
// Linux's page size in bytes. The library needs 4 KiB (base/page.h).
std::size_t linux_page_size();

}  // namespace wherry::impl
