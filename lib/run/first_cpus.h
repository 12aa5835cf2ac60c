// The CPUs on which the process was permitted to run when it began. The library takes the CPUs of
// the thread that starts it as the process's, and its own threads inherit them. But OpenMP's
// OMP_PROC_BIND, and many programs, restrict the first thread to one CPU before the library starts
// on it.
#pragma once

#include <sched.h>

namespace wherry::run {

// Called before the program restricts a thread for the first time. Later calls do nothing.
void remember_first_cpus();

// While an OnFirstCpus exists, the calling thread may run on all of the process's first CPUs.
class OnFirstCpus {
 public:
  OnFirstCpus();
  ~OnFirstCpus();
  OnFirstCpus(const OnFirstCpus&) = delete;
  OnFirstCpus& operator=(const OnFirstCpus&) = delete;

 private:
  cpu_set_t before_;
  bool is_changed_ = false;
};

}  // namespace wherry::run
