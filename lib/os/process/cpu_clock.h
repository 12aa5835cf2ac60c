// The clock of the machine's CPUs.
#pragma once

namespace wherry::impl {

// The rate in kHz of the counter that clock64() reads. Where the CPU does not tell it: the highest
// frequency of CPU 0, as Linux tells it, which is about the same; 1 GHz where Linux does not. Any
// thread; reads files.
int cpu_clock_khz();

}  // namespace wherry::impl
