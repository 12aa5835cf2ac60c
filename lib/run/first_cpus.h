// The CPUs on which the process was permitted to run when it began. OpenMP's OMP_PROC_BIND, and
// many programs, keep the first thread on one CPU before the library starts on that thread. The
// library takes the CPUs of the thread that starts it as those of the process, and its threads
// inherit them.
#pragma once

#include <sched.h>

namespace wherry::run {

// Call it before the program restricts a thread for the first time. Later calls do nothing.
void remember_first_cpus();

// While one of these lives, the calling thread may run on all of the process's first CPUs.
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
