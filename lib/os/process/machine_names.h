// What Linux calls itself and the machine, for reports.
#pragma once

#include <string>

namespace wherry::impl {

// "6.1.0-18-amd64". Empty: unknown.
std::string kernel_release();
// The name of the CPUs' model, as /proc/cpuinfo has it. Empty: unknown; Linux names none on some
// architectures.
std::string cpu_model();

}  // namespace wherry::impl
