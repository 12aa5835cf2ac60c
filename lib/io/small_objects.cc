// Functions that pass small objects to Linux or get some from it. What can be got only once goes
// through an object of the wrapper.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/served_call.h"
#include "io/stand_in.h"

namespace wherry::io {
namespace {

// Linux answers to a request as much as its number says, and older requests need little.
std::size_t answer_bytes(unsigned long request) {
  constexpr std::size_t of_older_requests = 64;
  return std::max<std::size_t>(_IOC_SIZE(request), of_older_requests);
}

using Accept = int(int, void*, socklen_t*);

template <typename Real>
int accept_managed(const Real& real, void* address, socklen_t* bytes) {
  sockaddr_storage own;
  const socklen_t room = *bytes;
  socklen_t own_bytes = std::min<socklen_t>(room, sizeof own);
  const int result = real(&own, &own_bytes);
  if (result < 0) return result;
  std::memcpy(address, &own, std::min(room, own_bytes));
  *bytes = own_bytes;
  return result;
}

}  // namespace

// Files and events.
WHERRY_IO_SERVED(int, poll, (pollfd * files, nfds_t count, int timeout), (files, count, timeout),
                 out(files, count * sizeof *files))
WHERRY_IO_SERVED(int, __poll_chk, (pollfd * files, nfds_t count, int timeout, std::size_t room),
                 (files, count, timeout, room), out(files, count * sizeof *files))
WHERRY_IO_SERVED(int, ppoll,
                 (pollfd * files, nfds_t count, const timespec* timeout, const sigset_t* mask),
                 (files, count, timeout, mask), out(files, count * sizeof *files), in(timeout),
                 in(mask))
WHERRY_IO_SERVED(int, select,
                 (int count, fd_set* readable, fd_set* writable, fd_set* special, timeval* timeout),
                 (count, readable, writable, special, timeout), out(readable), out(writable),
                 out(special), out(timeout))
WHERRY_IO_SERVED(int, pselect,
                 (int count, fd_set* readable, fd_set* writable, fd_set* special,
                  const timespec* timeout, const sigset_t* mask),
                 (count, readable, writable, special, timeout, mask), out(readable), out(writable),
                 out(special), in(timeout), in(mask))
WHERRY_IO_SERVED(int, epoll_ctl, (int set, int what, int file, epoll_event* event),
                 (set, what, file, event), in(event))
WHERRY_IO_SERVED(int, epoll_wait, (int set, epoll_event* events, int count, int timeout),
                 (set, events, count, timeout),
                 out(events, static_cast<std::size_t>(std::max(count, 0)) * sizeof *events))
WHERRY_IO_SERVED(int, epoll_pwait,
                 (int set, epoll_event* events, int count, int timeout, const sigset_t* mask),
                 (set, events, count, timeout, mask),
                 out(events, static_cast<std::size_t>(std::max(count, 0)) * sizeof *events),
                 in(mask))
WHERRY_IO_SERVED(int, pipe, (int* files), (files), out(files, 2 * sizeof *files))
WHERRY_IO_SERVED(int, pipe2, (int* files, int flags), (files, flags), out(files, 2 * sizeof *files))
WHERRY_IO_SERVED(ssize_t, sendfile, (int to, int from, off_t* offset, std::size_t bytes),
                 (to, from, offset, bytes), out(offset))
WHERRY_IO_SERVED(ssize_t, sendfile64, (int to, int from, off64_t* offset, std::size_t bytes),
                 (to, from, offset, bytes), out(offset))
WHERRY_IO_SERVED(ssize_t, copy_file_range,
                 (int from, off64_t* from_offset, int to, off64_t* to_offset, std::size_t bytes,
                  unsigned flags),
                 (from, from_offset, to, to_offset, bytes, flags), out(from_offset), out(to_offset))
WHERRY_IO_SERVED(ssize_t, splice,
                 (int from, off64_t* from_offset, int to, off64_t* to_offset, std::size_t bytes,
                  unsigned flags),
                 (from, from_offset, to, to_offset, bytes, flags), out(from_offset), out(to_offset))
// Passed as any further argument is, in a register. Numbers are no addresses of managed memory.
WHERRY_IO_SERVED(int, ioctl, (int file, unsigned long request, void* argument),
                 (file, request, argument), out(argument, answer_bytes(request)))
WHERRY_IO_SERVED(int, fcntl, (int file, int command, void* argument), (file, command, argument),
                 out(argument, sizeof(struct flock)))
WHERRY_IO_SERVED(int, fcntl64, (int file, int command, void* argument), (file, command, argument),
                 out(argument, sizeof(struct flock)))

// Sockets.
WHERRY_IO_SERVED(int, bind, (int file, const void* address, socklen_t bytes),
                 (file, address, bytes), in(address, bytes))
WHERRY_IO_SERVED(int, connect, (int file, const void* address, socklen_t bytes),
                 (file, address, bytes), in(address, bytes))
WHERRY_IO_SERVED(int, getsockname, (int file, void* address, socklen_t* bytes),
                 (file, address, bytes), out(address, sizeof(sockaddr_storage)), out(bytes))
WHERRY_IO_SERVED(int, getpeername, (int file, void* address, socklen_t* bytes),
                 (file, address, bytes), out(address, sizeof(sockaddr_storage)), out(bytes))
WHERRY_IO_SERVED(int, setsockopt,
                 (int file, int level, int option, const void* value, socklen_t bytes),
                 (file, level, option, value, bytes), in(value, bytes))
WHERRY_IO_SERVED(int, getsockopt, (int file, int level, int option, void* value, socklen_t* bytes),
                 (file, level, option, value, bytes), out(value, 256), out(bytes))
WHERRY_IO_SERVED(int, socketpair, (int domain, int type, int protocol, int* files),
                 (domain, type, protocol, files), out(files, 2 * sizeof *files))

int io_accept(int, void*, socklen_t*) WHERRY_IO_STANDS_FOR("accept");
int io_accept4(int, void*, socklen_t*, int) WHERRY_IO_STANDS_FOR("accept4");

// A connection that was accepted is closed if its address cannot be stored.
int io_accept(int file, void* address, socklen_t* bytes) {
  const auto real = Real<"accept", Accept>::get();
  if (address == nullptr || !concerns_managed(static_cast<char*>(address), bytes))
    return real(file, address, bytes);
  return accept_managed([&](void* own, socklen_t* room) { return real(file, own, room); }, address,
                        bytes);
}
int io_accept4(int file, void* address, socklen_t* bytes, int flags) {
  const auto real = Real<"accept4", int(int, void*, socklen_t*, int)>::get();
  if (address == nullptr || !concerns_managed(static_cast<char*>(address), bytes))
    return real(file, address, bytes, flags);
  return accept_managed([&](void* own, socklen_t* room) { return real(file, own, room, flags); },
                        address, bytes);
}

// Processes: what Linux says of a child's end it says once.
pid_t io_wait(int*) WHERRY_IO_STANDS_FOR("wait");
pid_t io_waitpid(pid_t, int*, int) WHERRY_IO_STANDS_FOR("waitpid");
pid_t io_wait3(int*, int, rusage*) WHERRY_IO_STANDS_FOR("wait3");
pid_t io_wait4(pid_t, int*, int, rusage*) WHERRY_IO_STANDS_FOR("wait4");
int io_waitid(idtype_t, id_t, siginfo_t*, int) WHERRY_IO_STANDS_FOR("waitid");

pid_t io_wait(int* status) {
  return io_waitpid(-1, status, 0);
}
pid_t io_waitpid(pid_t child, int* status, int flags) {
  const auto real = Real<"waitpid", pid_t(pid_t, int*, int)>::get();
  if (!concerns_managed(status)) return real(child, status, flags);
  StandIn own(status);
  return real(child, own.get(), flags);
}
pid_t io_wait3(int* status, int flags, rusage* usage) {
  return io_wait4(-1, status, flags, usage);
}
pid_t io_wait4(pid_t child, int* status, int flags, rusage* usage) {
  const auto real = Real<"wait4", pid_t(pid_t, int*, int, rusage*)>::get();
  if (!concerns_managed(status, usage)) return real(child, status, flags, usage);
  StandIn own_status(status);
  StandIn own_usage(usage);
  return real(child, own_status.get(), flags, own_usage.get());
}
int io_waitid(idtype_t kind, id_t child, siginfo_t* about, int flags) {
  const auto real = Real<"waitid", int(idtype_t, id_t, siginfo_t*, int)>::get();
  if (!concerns_managed(about)) return real(kind, child, about, flags);
  StandIn own(about);
  return real(kind, child, own.get(), flags);
}

// Time. Linux stores how much is left when a signal has ended the sleep.
int io_nanosleep(const timespec*, timespec*) WHERRY_IO_STANDS_FOR("nanosleep");
int io_clock_nanosleep(clockid_t, int, const timespec*, timespec*)
    WHERRY_IO_STANDS_FOR("clock_nanosleep");

int io_nanosleep(const timespec* length, timespec* rest) {
  const auto real = Real<"nanosleep", int(const timespec*, timespec*)>::get();
  if (!concerns_managed(length, rest)) return real(length, rest);
  const timespec own_length = *length;
  StandIn own(rest);
  return real(&own_length, own.get());
}
int io_clock_nanosleep(clockid_t clock, int flags, const timespec* until, timespec* rest) {
  const auto real = Real<"clock_nanosleep", int(clockid_t, int, const timespec*, timespec*)>::get();
  if (!concerns_managed(until, rest)) return real(clock, flags, until, rest);
  const timespec own_until = *until;
  StandIn own(rest);
  return real(clock, flags, &own_until, own.get());
}

WHERRY_IO_SERVED(int, clock_gettime, (clockid_t clock, timespec* time), (clock, time), out(time))
WHERRY_IO_SERVED(int, clock_getres, (clockid_t clock, timespec* time), (clock, time), out(time))
WHERRY_IO_SERVED(clock_t, times, (tms * used), (used), out(used))
WHERRY_IO_SERVED(int, getitimer, (int kind, itimerval* value), (kind, value), out(value))
WHERRY_IO_SERVED(int, setitimer, (int kind, const itimerval* value, itimerval* old),
                 (kind, value, old), in(value), out(old))
WHERRY_IO_SERVED(int, timerfd_settime,
                 (int file, int flags, const itimerspec* value, itimerspec* old),
                 (file, flags, value, old), in(value), out(old))
WHERRY_IO_SERVED(int, timerfd_gettime, (int file, itimerspec* value), (file, value), out(value))

// The process and the machine.
WHERRY_IO_SERVED(int, getrusage, (int who, rusage* usage), (who, usage), out(usage))
WHERRY_IO_SERVED(int, getrlimit, (int kind, rlimit* limit), (kind, limit), out(limit))
WHERRY_IO_SERVED(int, getrlimit64, (int kind, rlimit* limit), (kind, limit), out(limit))
WHERRY_IO_SERVED(int, setrlimit, (int kind, const rlimit* limit), (kind, limit), in(limit))
WHERRY_IO_SERVED(int, setrlimit64, (int kind, const rlimit* limit), (kind, limit), in(limit))
WHERRY_IO_SERVED(int, prlimit, (pid_t process, int kind, const rlimit* limit, rlimit* old),
                 (process, kind, limit, old), in(limit), out(old))
WHERRY_IO_SERVED(int, prlimit64, (pid_t process, int kind, const rlimit* limit, rlimit* old),
                 (process, kind, limit, old), in(limit), out(old))
WHERRY_IO_SERVED(int, sched_getaffinity, (pid_t thread, std::size_t bytes, void* cpus),
                 (thread, bytes, cpus), out(cpus, bytes))
WHERRY_IO_SERVED(int, sched_setaffinity, (pid_t thread, std::size_t bytes, const void* cpus),
                 (thread, bytes, cpus), in(cpus, bytes))
WHERRY_IO_SERVED(int, uname, (utsname * about), (about), out(about))
WHERRY_IO_SERVED(int, sysinfo, (struct sysinfo * about), (about), out(about))
WHERRY_IO_SERVED(int, getgroups, (int count, gid_t* groups), (count, groups),
                 out(groups, static_cast<std::size_t>(std::max(count, 0)) * sizeof *groups))
WHERRY_IO_SERVED(ssize_t, getrandom, (void* bytes, std::size_t count, unsigned flags),
                 (bytes, count, flags), out(bytes, count))
WHERRY_IO_SERVED(int, getentropy, (void* bytes, std::size_t count), (bytes, count),
                 out(bytes, count))
WHERRY_IO_SERVED(int, semop, (int set, sembuf* operations, std::size_t count),
                 (set, operations, count), in(operations, count * sizeof *operations))

// Signals. sigaction() and the functions that wait for a signal have objects of their own.
WHERRY_IO_SERVED(int, sigprocmask, (int how, const sigset_t* mask, sigset_t* old), (how, mask, old),
                 in(mask), out(old))
WHERRY_IO_SERVED(int, sigaltstack, (const stack_t* stack, stack_t* old), (stack, old), in(stack),
                 out(old))
WHERRY_IO_SERVED(int, sigpending, (sigset_t * pending), (pending), out(pending))
WHERRY_IO_SERVED(int, sigsuspend, (const sigset_t* mask), (mask), in(mask))

int io_pthread_sigmask(int, const sigset_t*, sigset_t*) WHERRY_IO_STANDS_FOR("pthread_sigmask");

// Returns the error.
int io_pthread_sigmask(int how, const sigset_t* mask, sigset_t* old) {
  const auto real = Real<"pthread_sigmask", int(int, const sigset_t*, sigset_t*)>::get();
  if (!concerns_managed(mask, old)) return real(how, mask, old);
  const sigset_t own_mask = mask != nullptr ? *mask : sigset_t{};
  StandIn own_old(old);
  return real(how, mask != nullptr ? &own_mask : nullptr, own_old.get());
}

}  // namespace wherry::io
