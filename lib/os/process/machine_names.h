// What Linux says of itself and of the machine.
#pragma once

#include <cstddef>
#include <string>

namespace wherry::impl {

// "6.1.0-18-amd64". Empty: unknown.
std::string kernel_release();
// By the release, for defects of old versions that no call reports. False if it is unknown.
// Async-signal-safe.
bool linux_is_older_than(unsigned major, unsigned minor);
// The name of the CPUs' model, as /proc/cpuinfo has it. Empty: unknown; Linux names none on some
// architectures.
std::string cpu_model();
// The size of its pages. The library works where it is 4 KiB (base/page.h).
std::size_t linux_page_size();

}  // namespace wherry::impl
