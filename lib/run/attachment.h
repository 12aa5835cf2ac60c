// Which processor the program's threads count as. The rules are separated by commas; the first one
// that fits a thread decides, and where none fits the thread is the host's:
//   by-cpu             the device on whose node the thread runs, looked up at each fault
//   name=PATTERN:WHO   threads whose name fits the pattern (fnmatch)
//   index=N:WHO        the Nth thread of the program, the first one being 0
//   index=N-M:WHO      these threads
// WHO: host, by-cpu, or the number of a coherent device.
#pragma once

namespace wherry::run {

// Whether a rule can make a thread something else than the host's, so that the library must start
// before the program's second thread does.
bool rules_matter();
// Attaches the calling thread, the program's first one.
void attach_first_thread();
// Attaches the calling thread, which has this number.
void attach_thread(unsigned index);
// The calling thread has a new name.
void attach_renamed_thread();

}  // namespace wherry::run
