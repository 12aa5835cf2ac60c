// The clock of the machine's CPUs.
#pragma once

namespace wherry::impl {

// The rate in kHz of the counter that clock64() reads. If the CPU does not report it: the highest
// frequency of CPU 0, which is about the same, or 1 GHz if Linux does not report that. Any thread;
// reads files.
int cpu_clock_khz();

}  // namespace wherry::impl
