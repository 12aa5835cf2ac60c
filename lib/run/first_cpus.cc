#include "run/first_cpus.h"

#include <pthread.h>

#include "run/real.h"

namespace wherry::run {
namespace {

using SetAffinity = int(pid_t, std::size_t, const cpu_set_t*);

cpu_set_t first;
bool is_asked = false;
// Stays false on a machine with more CPUs than a cpu_set_t has.
bool is_known = false;

int set_affinity(const cpu_set_t& cpus) {
  return Real<"sched_setaffinity", SetAffinity>::get()(0, sizeof cpus, &cpus);
}

}  // namespace

void remember_first_cpus() {
  if (is_asked) return;
  is_asked = true;
  is_known = ::sched_getaffinity(0, sizeof first, &first) == 0;
}

OnFirstCpus::OnFirstCpus() {
  if (!is_known || ::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  is_changed_ = CPU_EQUAL(&before_, &first) == 0 && set_affinity(first) == 0;
}

OnFirstCpus::~OnFirstCpus() {
  if (is_changed_) (void)set_affinity(before_);
}

}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

// These are interposed because the OpenMP library restricts the first thread when it is loaded,
// which may be before this library is (session.cc).

int sched_setaffinity(pid_t thread, std::size_t bytes, const cpu_set_t* cpus) noexcept {
  remember_first_cpus();
  return Real<"sched_setaffinity", SetAffinity>::get()(thread, bytes, cpus);
}

int pthread_setaffinity_np(pthread_t thread, std::size_t bytes, const cpu_set_t* cpus) noexcept {
  remember_first_cpus();
  return Real<"pthread_setaffinity_np", int(pthread_t, std::size_t, const cpu_set_t*)>::get()(
      thread, bytes, cpus);
}

}  // extern "C"
#pragma GCC visibility pop
