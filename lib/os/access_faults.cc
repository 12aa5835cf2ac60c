#include "os/access_faults.h"
#include <signal.h>
#include <ucontext.h>
#include <errno.h>
namespace wherry::impl {
namespace { std::uintptr_t s, e; AccessFaultHook h; struct sigaction old;
void on(int sig, siginfo_t* i, void* c) {
  const int saved = errno;
  auto a = reinterpret_cast<std::uintptr_t>(i->si_addr);
  auto* u = static_cast<ucontext_t*>(c);
  if (i->si_code > 0 && a >= s && a < e && h({a, (u->uc_mcontext.gregs[REG_ERR] & 2) != 0})) { errno = saved; return; }
  if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) { old.sa_sigaction(sig, i, c); return; }
  ::sigaction(sig, &old, nullptr);
} }
void claim_access_faults(std::uintptr_t start, std::uintptr_t end, AccessFaultHook hook) {
  s = start; e = end; h = hook;
  struct sigaction n {}; n.sa_sigaction = on; n.sa_flags = SA_SIGINFO | SA_ONSTACK; sigfillset(&n.sa_mask); sigdelset(&n.sa_mask, SIGSEGV);
  struct sigaction o; ::sigaction(SIGSEGV, &n, &o); if (o.sa_sigaction != on) old = o;
}
}
