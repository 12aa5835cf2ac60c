#include "os/process/thread.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

namespace wherry::impl {
namespace {

std::uint64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

static_assert(sizeof(sigset_t) <= sizeof(unsigned long[16]));

void SavedSignals::block() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::memcpy(saved_, &before, sizeof before);
}

void SavedSignals::restore() const {
  sigset_t before;
  std::memcpy(&before, saved_, sizeof before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void SavedCancellation::disable() {
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_);
}

void SavedCancellation::restore() const {
  int before = 0;
  ::pthread_setcancelstate(saved_, &before);
}

void name_this_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

bool pin_this_thread(std::span<const int> cpus) {
  const int highest = cpus.empty() ? 0 : *std::max_element(cpus.begin(), cpus.end());
  std::vector<cpu_set_t> set(static_cast<std::size_t>(highest) / CPU_SETSIZE + 1);
  const std::size_t bytes = set.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.data());
  return pthread_setaffinity_np(pthread_self(), bytes, set.data()) == 0;
}

void wait_precisely() {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
}

void give_way() {
  constexpr int nice_value = 10;
  // on Linux this sets the calling thread's value
  (void)::setpriority(PRIO_PROCESS, 0, nice_value);
}

std::uint32_t this_thread_id() {
  return static_cast<std::uint32_t>(::gettid());
}

bool thread_exists(std::uint32_t id) {
  return ::tgkill(::getpid(), static_cast<pid_t>(id), 0) == 0;
}

std::uint64_t thread_cpu_ns() {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

std::uint64_t process_cpu_ns() {
  return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void yield_cpu() {
  ::sched_yield();
}

bool drop_cached_stacks() {
  // The C library trims its cache, oldest stack first, when an ended thread's stack makes the cache
  // exceed 40 MiB. A stack that exceeds the limit by itself evicts all others, and is then unmapped
  // too.
  constexpr std::size_t above_cache_limit = 64 << 20;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, above_cache_limit);
  // Runs on this CPU: unmapping a stack while its thread is still ending on another CPU waits for
  // that CPU, which took milliseconds on a virtual machine.
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &here);
  pthread_attr_setaffinity_np(&attributes, sizeof here, &here);
  const int error = pthread_create(
      &thread, &attributes, [](void*) -> void* { return nullptr; }, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0 && pthread_join(thread, nullptr) == 0;
}

bool keeps_forked_stacks() {
  int major = 0;
  int minor = 0;
  std::sscanf(::gnu_get_libc_version(), "%d.%d", &major, &minor);
  return major > 2 || minor >= 42;  // for 2.42 it is not known; a needless true does no harm
}

}  // namespace wherry::impl
