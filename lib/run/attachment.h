// Which processor the program's threads count as. The rules are separated by commas; the first one
// that fits a thread decides, and a thread that none fits is the host's:
//   by-cpu             the device on whose node the thread runs, looked up at each fault
//   name=PATTERN:WHO   threads whose name fits the pattern (fnmatch)
//   index=N:WHO        the Nth thread of the program; the first one is number 0
//   index=N-M:WHO      the threads N to M
// WHO: host, by-cpu, or the number of a coherent device.
#pragma once

namespace wherry::run {

// Whether a rule can make a thread count as a device, so that the library must start before the
// program's second thread does.
bool rules_matter();
// Attaches the calling thread, the program's first one.
void attach_first_thread();
// Attaches the calling thread, whose number is `index`.
void attach_thread(unsigned index);
// Attaches the calling thread by its new name.
void attach_renamed_thread();

}  // namespace wherry::run
