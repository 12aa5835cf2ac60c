// The clock of the machine's CPUs.
#pragma once

namespace wherry::impl {

// The highest frequency of CPU 0 in kHz, as Linux tells it; 1 GHz where Linux does not. Any thread;
// reads files.
int cpu_clock_khz();

}  // namespace wherry::impl
