// Wrappers of functions that pass small objects to Linux or get some from it. Results that can be
// got only once go through an object of the wrapper.
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

// An ioctl's request number contains the size of the answer. The numbers of older requests do not;
// their answers are small.
std::size_t answer_bytes(unsigned long request) {
  constexpr std::size_t of_older_requests = 64;
  return std::max<std::size_t>(_IOC_SIZE(request), of_older_requests);
}

using Accept = int(int, void*, socklen_t*);

bool concerns_answer(const void* address, const socklen_t* bytes) {
  return prepares() && address != nullptr && bytes != nullptr &&
         (is_managed(address, 1) || is_managed(bytes, sizeof *bytes));
}

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
WHERRY_IO_WITH_STAND_INS(ssize_t, sendfile, (int to, int from, off_t* offset, std::size_t bytes),
                         (to, from, offset, bytes))
WHERRY_IO_WITH_STAND_INS(ssize_t, sendfile64,
                         (int to, int from, off64_t* offset, std::size_t bytes),
                         (to, from, offset, bytes))
WHERRY_IO_WITH_STAND_INS(ssize_t, copy_file_range,
                         (int from, off64_t* from_offset, int to, off64_t* to_offset,
                          std::size_t bytes, unsigned flags),
                         (from, from_offset, to, to_offset, bytes, flags))
WHERRY_IO_WITH_STAND_INS(ssize_t, splice,
                         (int from, off64_t* from_offset, int to, off64_t* to_offset,
                          std::size_t bytes, unsigned flags),
                         (from, from_offset, to, to_offset, bytes, flags))
// The last argument is in a register, whatever its type. If it is a number, it is no managed
// address, so nothing is prepared.
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
WHERRY_IO_SERVED(int, socketpair, (int domain, int type, int protocol, int* files),
                 (domain, type, protocol, files), out(files, 2 * sizeof *files))

int io_getsockopt(int, int, int, void*, socklen_t*) WHERRY_IO_STANDS_FOR("getsockopt");

// Some options are cleared when they are read, so the value goes through an own buffer.
int io_getsockopt(int file, int level, int option, void* value, socklen_t* bytes) {
  const auto real = Real<"getsockopt", int(int, int, int, void*, socklen_t*)>::get();
  if (!concerns_answer(value, bytes)) return real(file, level, option, value, bytes);
  char own[1024];
  const socklen_t room = *bytes;
  if (room > sizeof own)
    return call_with_managed<int>({out(value, room), out(bytes)},
                                  [&] { return real(file, level, option, value, bytes); });
  std::memcpy(own, value, room);
  socklen_t own_bytes = room;
  const int result = real(file, level, option, own, &own_bytes);
  if (result < 0) return result;
  std::memcpy(value, own, std::min(room, own_bytes));
  *bytes = own_bytes;
  return result;
}

int io_accept(int, void*, socklen_t*) WHERRY_IO_STANDS_FOR("accept");
int io_accept4(int, void*, socklen_t*, int) WHERRY_IO_STANDS_FOR("accept4");

// Linux closes an accepted connection if it cannot store the address.
int io_accept(int file, void* address, socklen_t* bytes) {
  const auto real = Real<"accept", Accept>::get();
  if (!concerns_answer(address, bytes)) return real(file, address, bytes);
  return accept_managed([&](void* own, socklen_t* room) { return real(file, own, room); }, address,
                        bytes);
}
int io_accept4(int file, void* address, socklen_t* bytes, int flags) {
  const auto real = Real<"accept4", int(int, void*, socklen_t*, int)>::get();
  if (!concerns_answer(address, bytes)) return real(file, address, bytes, flags);
  return accept_managed([&](void* own, socklen_t* room) { return real(file, own, room, flags); },
                        address, bytes);
}

// Processes. Linux reports a child's end only once.
WHERRY_IO_WITH_STAND_INS(pid_t, wait, (int* status), (status))
WHERRY_IO_WITH_STAND_INS(pid_t, waitpid, (pid_t child, int* status, int flags),
                         (child, status, flags))
WHERRY_IO_WITH_STAND_INS(pid_t, wait3, (int* status, int flags, rusage* usage),
                         (status, flags, usage))
WHERRY_IO_WITH_STAND_INS(pid_t, wait4, (pid_t child, int* status, int flags, rusage* usage),
                         (child, status, flags, usage))
WHERRY_IO_WITH_STAND_INS(int, waitid, (idtype_t kind, id_t child, siginfo_t* about, int flags),
                         (kind, child, about, flags))

// Time. Linux stores the time that is left if a signal has ended the sleep.
WHERRY_IO_WITH_STAND_INS(int, nanosleep, (const timespec* length, timespec* rest), (length, rest))
WHERRY_IO_WITH_STAND_INS(int, clock_nanosleep,
                         (clockid_t clock, int flags, const timespec* until, timespec* rest),
                         (clock, flags, until, rest))
WHERRY_IO_SERVED(int, clock_gettime, (clockid_t clock, timespec* time), (clock, time), out(time))
WHERRY_IO_SERVED(int, clock_getres, (clockid_t clock, timespec* time), (clock, time), out(time))
WHERRY_IO_SERVED(clock_t, times, (tms * used), (used), out(used))
WHERRY_IO_SERVED(int, getitimer, (int kind, itimerval* value), (kind, value), out(value))
WHERRY_IO_WITH_STAND_INS(int, setitimer, (int kind, const itimerval* value, itimerval* old),
                         (kind, value, old))
WHERRY_IO_WITH_STAND_INS(int, timerfd_settime,
                         (int file, int flags, const itimerspec* value, itimerspec* old),
                         (file, flags, value, old))
WHERRY_IO_SERVED(int, timerfd_gettime, (int file, itimerspec* value), (file, value), out(value))

// The process and the machine.
WHERRY_IO_SERVED(int, getrusage, (int who, rusage* usage), (who, usage), out(usage))
WHERRY_IO_SERVED(int, getrlimit, (int kind, rlimit* limit), (kind, limit), out(limit))
WHERRY_IO_SERVED(int, getrlimit64, (int kind, rlimit* limit), (kind, limit), out(limit))
WHERRY_IO_SERVED(int, setrlimit, (int kind, const rlimit* limit), (kind, limit), in(limit))
WHERRY_IO_SERVED(int, setrlimit64, (int kind, const rlimit* limit), (kind, limit), in(limit))
WHERRY_IO_WITH_STAND_INS(int, prlimit, (pid_t process, int kind, const rlimit* limit, rlimit* old),
                         (process, kind, limit, old))
WHERRY_IO_WITH_STAND_INS(int, prlimit64,
                         (pid_t process, int kind, const rlimit* limit, rlimit* old),
                         (process, kind, limit, old))
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

// Signals. sigaction() and the functions that wait for a signal pass Linux their own objects.
WHERRY_IO_WITH_STAND_INS(int, sigprocmask, (int how, const sigset_t* mask, sigset_t* old),
                         (how, mask, old))
WHERRY_IO_WITH_STAND_INS(int, sigaltstack, (const stack_t* stack, stack_t* old), (stack, old))
WHERRY_IO_SERVED(int, sigpending, (sigset_t * pending), (pending), out(pending))
WHERRY_IO_SERVED(int, sigsuspend, (const sigset_t* mask), (mask), in(mask))

WHERRY_IO_WITH_STAND_INS(int, pthread_sigmask, (int how, const sigset_t* mask, sigset_t* old),
                         (how, mask, old))

}  // namespace wherry::io
