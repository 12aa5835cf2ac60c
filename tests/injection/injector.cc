// Makes system calls of libwherry.so fail. It is preloaded into a program. It interposes the
// functions of the C library, libnuma and liburing through which lib/os calls Linux, and affects
// only calls from libwherry.so, in the host and in its device processes.
//
// A call site is the return address of the call, as an offset in libwherry.so, with the request (of
// ioctl, fcntl, prctl, madvise and syscall). INJECT_FILE names a file that gets one line for each
// event:
//   site FUNCTION OFFSET REQUEST COUNT FAULTS    at executions 1, 2, 4, 8...; FAULTS: the possible
//                                                faults of the call
//   hit FUNCTION OFFSET REQUEST FAULT            a fault was injected into a call
// INJECT_PLAN selects what to do:
//   record                                       no faults
//   fail OFFSET REQUEST FAULT NTH LAST           executions NTH to LAST of one site get the fault
//   random SEED RATE                             RATE of 100,000 calls fail
//   off                                          no faults and no lines
// A FAULT is an errno's number, "short" (only a part is done) or "delay" (waits for 20 ms first).
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>

#include "support/cpu.h"

namespace {

constexpr int fault_short = -1;
constexpr int fault_delay = -2;
constexpr int no_fault = 0;
constexpr std::size_t faults_max = 8;
constexpr unsigned long any_request = ~0ul;

// The errors of each call by the manual pages. Errors that the library may rely on are left out,
// because Linux returns them only if they are true: that a process has ended (ESRCH, EPIPE), that a
// counter is full, or that a file has no data. Errors that only a bug of the caller can cause
// (EBADF, EFAULT, EINVAL) are left out, too, unless an older kernel returns them.
struct Row {
  const char* function;
  unsigned long request;
  std::array<int, faults_max> faults;
};

constexpr Row rows[] = {
    {"ioctl", UFFDIO_API, {EPERM, EINVAL}},
    {"ioctl", UFFDIO_REGISTER, {ENOMEM, EBUSY, EPERM}},
    {"ioctl", UFFDIO_UNREGISTER, {ENOMEM}},
    {"ioctl", UFFDIO_COPY, {EAGAIN, EEXIST, ENOENT, ENOSPC, ENOMEM, fault_short}},
    {"ioctl", UFFDIO_ZEROPAGE, {EAGAIN, EEXIST, ENOENT, ENOSPC, ENOMEM, fault_short}},
    {"ioctl", UFFDIO_CONTINUE, {EAGAIN, EEXIST, ENOENT, ENOMEM, fault_short}},
    {"ioctl", UFFDIO_WRITEPROTECT, {EAGAIN, ENOENT}},
    {"ioctl", 0xc020aa08 /* UFFDIO_POISON */, {EAGAIN, EEXIST, ENOENT, ENOMEM}},
    {"ioctl", UFFDIO_WAKE, {}},
    {"ioctl", any_request, {EMFILE, ENOMEM}},
    {"mmap64", any_request, {ENOMEM, EAGAIN, EPERM}},
    {"munmap", any_request, {ENOMEM}},
    {"mprotect", any_request, {ENOMEM}},
    {"mremap", any_request, {ENOMEM, EAGAIN}},
    {"madvise", any_request, {ENOMEM, EAGAIN, EINVAL}},
    {"mlock", any_request, {ENOMEM, EPERM, EAGAIN}},
    {"mincore", any_request, {EAGAIN, ENOMEM}},
    {"msync", any_request, {ENOMEM}},
    {"open64", any_request, {EACCES, EMFILE, ENFILE, ENOENT, ENOMEM}},
    {"openat64", any_request, {EACCES, EMFILE, ENFILE, ENOMEM, ENOSPC}},
    {"opendir", any_request, {EACCES, EMFILE, ENOMEM}},
    {"memfd_create", any_request, {EMFILE, ENFILE, ENOMEM}},
    {"ftruncate64", any_request, {EFBIG, EINTR, ENOMEM, EPERM}},
    {"fallocate64", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, {EINTR}},
    {"fallocate64", any_request, {ENOSPC, EINTR, ENOMEM}},
    {"lseek64", any_request, {}},
    {"read", 1 /* eventfd */, {EAGAIN}},
    {"read", 2 /* userfaultfd */, {EAGAIN, EINTR}},
    {"read", any_request, {EINTR, EIO, fault_short}},
    {"write", 1, {}},
    {"write", any_request, {EINTR, EAGAIN, EIO, ENOSPC, fault_short}},
    {"pread64", any_request, {EINTR, EIO, ENOMEM, fault_short}},
    {"pwrite64", any_request, {EINTR, ENOSPC, EIO, fault_short}},
    {"readlink", any_request, {EACCES, ENOMEM}},
    {"stat64", any_request, {EACCES, ENOMEM}},
    {"fstat64", any_request, {ENOMEM}},
    {"fstatfs64", any_request, {ENOMEM, EINTR}},
    {"fcntl64", F_DUPFD_CLOEXEC, {EMFILE}},
    {"fcntl64", F_ADD_SEALS, {EBUSY, EPERM}},
    {"fcntl64", F_OFD_SETLK, {EAGAIN, ENOLCK, EINTR}},
    {"fcntl64", any_request, {}},
    {"dup2", any_request, {EMFILE, EINTR}},
    {"pipe2", any_request, {EMFILE, ENFILE}},
    {"eventfd", any_request, {EMFILE, ENFILE, ENOMEM}},
    {"socketpair", any_request, {EMFILE, ENFILE, ENOMEM}},
    {"poll", any_request, {EINTR, ENOMEM}},
    {"ppoll", any_request, {EINTR, ENOMEM}},
    {"sendmsg", any_request, {EINTR, EAGAIN, ENOBUFS, ENOMEM}},
    {"recvmsg", any_request, {EINTR, EAGAIN, ENOMEM}},
    {"fork", any_request, {EAGAIN, ENOMEM}},
    {"clone", any_request, {EAGAIN, ENOMEM, EPERM}},
    {"waitpid", any_request, {EINTR, ECHILD}},
    {"waitid", any_request, {EINTR, ECHILD}},
    {"prctl", any_request, {EPERM, EINVAL}},
    {"pthread_create", any_request, {EAGAIN}},
    {"pthread_setaffinity_np", any_request, {EINVAL}},
    {"sched_getaffinity", any_request, {EINVAL, EPERM}},
    {"getrlimit64", any_request, {EPERM}},
    {"setrlimit64", any_request, {EPERM}},
    {"sigaltstack", any_request, {ENOMEM}},
    {"setpgid", any_request, {EPERM}},
    {"process_vm_readv", any_request, {EPERM, ENOMEM, ENOSYS, fault_short}},
    {"mbind", any_request, {ENOMEM, EIO, EPERM, ENOSYS}},
    {"move_pages", any_request, {EPERM, ENOMEM, EACCES, ENOSYS}},
    {"fsopen", any_request, {EPERM, EMFILE, ENOMEM, ENOSYS}},
    {"fsconfig", any_request, {EINVAL, EPERM, ENOMEM}},
    {"fsmount", any_request, {EPERM, EMFILE, ENOMEM}},
    {"unlinkat", any_request, {ENOMEM}},
    {"close", any_request, {EINTR, EIO}},
    {"io_uring_queue_init", any_request, {ENOMEM, EMFILE, EPERM, ENOSYS}},
    {"io_uring_submit", any_request, {EAGAIN, EBUSY, EINTR}},
    {"__io_uring_get_cqe", any_request, {EINTR, EAGAIN}},
    {"io_uring_register_iowq_max_workers", any_request, {EINVAL, ENOMEM}},
    {"io_uring_register_iowq_aff", any_request, {EINVAL, ENOMEM}},
    {"io_uring_ring_dontfork", any_request, {ENOMEM}},
    {"syscall", SYS_clone, {EAGAIN, ENOMEM}},
    {"syscall", SYS_pidfd_open, {EMFILE, ENFILE, ENOMEM}},
    {"syscall", SYS_pidfd_send_signal, {}},
    {"syscall", SYS_userfaultfd, {EPERM, EMFILE, ENOMEM, ENOSYS}},
    {"syscall", SYS_io_uring_setup, {EPERM, EMFILE, ENOMEM, ENOSYS}},
    {"syscall", SYS_io_uring_enter, {EINTR, EPERM}},
    {"syscall", SYS_io_uring_register, {EPERM, ENOSYS}},
    {"syscall", SYS_timer_create, {EAGAIN, ENOMEM}},
    {"syscall", SYS_futex, {EINTR, EAGAIN}},
    {"syscall", any_request, {}},
};

struct Range {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  bool has(std::uintptr_t address) const { return address >= start && address < end; }
};

struct Site {
  std::atomic<std::uintptr_t> offset{0};  // 0: the entry is free
  const char* function = nullptr;
  unsigned long request = 0;
  const Row* row = nullptr;
  std::atomic<bool> ready{false};
  std::atomic<std::uint64_t> passings{0};
};

enum class Mode {
  off,
  record,
  fail,
  random
};

Range library;
Range cxx_library;
Mode mode = Mode::off;
char file_path[256];
std::uintptr_t plan_offset = 0;
unsigned long plan_request = 0;
int plan_fault = 0;
std::uint64_t plan_first = 0;
std::uint64_t plan_last = 0;
std::uint64_t rate = 0;
std::atomic<std::uint64_t> random_state{0};
std::array<Site, 4096> sites;
thread_local bool busy = false;

long raw(long number, long a, long b, long c) {
  return wherry::test::raw_system_call(number, a, b, c, 0600);
}

void note(const char* text, int length) {
  const long fd = raw(SYS_openat, AT_FDCWD, reinterpret_cast<long>(file_path),
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;
  raw(SYS_write, fd, reinterpret_cast<long>(text), length);
  raw(SYS_close, fd, 0, 0);
}

const char* text_of(int fault, char* buffer, std::size_t size) {
  if (fault == fault_short) return "short";
  if (fault == fault_delay) return "delay";
  snprintf(buffer, size, "%d", fault);
  return buffer;
}

void note_site(const Site& site, std::uint64_t count) {
  char line[256];
  char number[16];
  int length = snprintf(line, sizeof line, "site %s %lx %lx %lu delay", site.function,
                        site.offset.load(), site.request, count);
  for (const int fault : site.row->faults)
    if (fault != no_fault)
      length += snprintf(line + length, sizeof line - static_cast<std::size_t>(length), ",%s",
                         text_of(fault, number, sizeof number));
  line[length++] = '\n';
  note(line, length);
}

void note_hit(const Site& site, int fault) {
  char line[256];
  char number[16];
  const int length =
      snprintf(line, sizeof line, "hit %s %lx %lx %s\n", site.function, site.offset.load(),
               site.request, text_of(fault, number, sizeof number));
  note(line, length);
}

const Row* row_of(const char* function, unsigned long request) {
  for (const Row& row : rows)
    if (strcmp(row.function, function) == 0 &&
        (row.request == request || row.request == any_request))
      return &row;
  return nullptr;
}

Site* find_site(const char* function, std::uintptr_t offset, unsigned long request) {
  std::size_t at = (offset * 31 + request) % sites.size();
  for (std::size_t tried = 0; tried < sites.size(); ++tried, at = (at + 1) % sites.size()) {
    Site& site = sites[at];
    std::uintptr_t expected = 0;
    if (site.offset.compare_exchange_strong(expected, offset)) {
      site.function = function;
      site.request = request;
      site.row = row_of(function, request);
      site.ready.store(true);
      return &site;
    }
    if (expected != offset) continue;
    // A device may have been forked while the host filled in this entry.
    for (int i = 0; i < 1000 && !site.ready.load(); ++i) sched_yield();
    if (!site.ready.load()) return nullptr;
    if (site.request == request && site.function == function) return &site;
  }
  return nullptr;
}

std::uint64_t next_random() {
  // splitmix64. The process id and the time make the devices' sequences differ.
  std::uint64_t z = random_state.fetch_add(0x9e3779b97f4a7c15) + 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// The fault for this execution of the call; 0: none.
int choose(const char* function, void* caller, unsigned long request) {
  if (mode == Mode::off || busy) return no_fault;
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (!library.has(address)) return no_fault;
  const int saved_errno = errno;
  busy = true;
  int fault = no_fault;
  Site* const site = find_site(function, address - library.start, request);
  if (site != nullptr && site->row != nullptr) {
    const std::uint64_t count = site->passings.fetch_add(1) + 1;
    if (mode == Mode::record && (count & (count - 1)) == 0) note_site(*site, count);
    if (mode == Mode::fail && site->offset.load() == plan_offset && request == plan_request &&
        count >= plan_first && count <= plan_last) {
      fault = plan_fault;
      if (count == plan_first) note_hit(*site, fault);
    }
    if (mode == Mode::random && next_random() % 100'000 < rate) {
      unsigned known = 0;
      while (known < faults_max && site->row->faults[known] != no_fault) ++known;
      const auto pick = static_cast<unsigned>(next_random() % (known + 1));
      fault = pick == known ? fault_delay : site->row->faults[pick];
      note_hit(*site, fault);
    }
  }
  busy = false;
  errno = saved_errno;
  if (fault == fault_delay) {
    const timespec pause{0, 20'000'000};
    raw(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0);
    errno = saved_errno;
    return no_fault;
  }
  return fault;
}

// Whether this execution of the call fails. Sets errno in that case.
bool fails(const char* function, void* caller, unsigned long request = 0) {
  const int fault = choose(function, caller, request);
  if (fault > 0) errno = fault;
  return fault > 0;
}

int visit_module(dl_phdr_info* info, std::size_t, void*) {
  const bool is_it = strstr(info->dlpi_name, "/libwherry.so") != nullptr;
  const bool is_cxx = strstr(info->dlpi_name, "/libstdc++.so") != nullptr;
  if (!is_it && !is_cxx) return 0;
  Range& range = is_it ? library : cxx_library;
  range.start = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const std::uintptr_t end = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
    if (segment.p_type == PT_LOAD && end > range.end) range.end = end;
  }
  return 0;
}

[[gnu::constructor]] void begin() {
  const char* const plan = getenv("INJECT_PLAN");
  const char* const file = getenv("INJECT_FILE");
  if (plan == nullptr || file == nullptr) return;
  snprintf(file_path, sizeof file_path, "%s", file);
  dl_iterate_phdr(visit_module, nullptr);
  char fault[16] = {};
  unsigned long seed = 0;
  if (strcmp(plan, "record") == 0) {
    mode = Mode::record;
  } else if (sscanf(plan, "fail %lx %lx %15s %lu %lu", &plan_offset, &plan_request, fault,
                    &plan_first, &plan_last) == 5) {
    plan_fault = strcmp(fault, "short") == 0   ? fault_short
                 : strcmp(fault, "delay") == 0 ? fault_delay
                                               : atoi(fault);
    mode = Mode::fail;
  } else if (sscanf(plan, "random %lu %lu", &seed, &rate) == 2) {
    random_state = seed * 1'000'003;
    mode = Mode::random;
  }
}

template <typename Function>
Function* real(std::atomic<void*>& known, const char* name) {
  void* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) {
    const bool was_busy = busy;
    busy = true;
    found = dlsym(RTLD_NEXT, name);
    busy = was_busy;
    known.store(found, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(found);
}

// The kind of a file descriptor, as the table distinguishes it: 1 an eventfd, 2 a userfaultfd, 0
// other.
unsigned long kind_of(int fd) {
  char path[32];
  char target[32] = {};
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (raw(SYS_readlink, reinterpret_cast<long>(path), reinterpret_cast<long>(target),
          sizeof target - 1) <= 0)
    return 0;
  if (strcmp(target, "anon_inode:[eventfd]") == 0) return 1;
  if (strcmp(target, "anon_inode:[userfaultfd]") == 0) return 2;
  return 0;
}

}  // namespace

#define REAL(name)                   \
  static std::atomic<void*> known{}; \
  auto* const actual = real<decltype(name)>(known, #name)
#define CALLER __builtin_return_address(0)
// The variable arguments of the function, which follow `last`, as an array `rest`.
#define REST(type, count, last)                          \
  type rest[count];                                      \
  {                                                      \
    va_list list;                                        \
    va_start(list, last);                                \
    for (auto& value : rest) value = va_arg(list, type); \
    va_end(list);                                        \
  }

// The original function, except for a fault that is reported in errno.
#define INTERPOSE(result, failed, name, parameters, arguments, request)           \
  extern "C" [[gnu::visibility("default")]] result name parameters {              \
    REAL(name);                                                                   \
    if (fails(#name, CALLER, static_cast<unsigned long>(request))) return failed; \
    return actual arguments;                                                      \
  }
// Interposes a function that reports errors in its result, not in errno.
#define INTERPOSE_RESULT(sign, name, parameters, arguments)       \
  extern "C" [[gnu::visibility("default")]] int name parameters { \
    REAL(name);                                                   \
    const int fault = choose(#name, CALLER, 0);                   \
    if (fault > 0) return sign fault;                             \
    return actual arguments;                                      \
  }
// Interposes a function that returns a count, and may also do only a part of its work.
#define INTERPOSE_COUNT(name, parameters, arguments, fewer, request)              \
  extern "C" [[gnu::visibility("default")]] ssize_t name parameters {             \
    REAL(name);                                                                   \
    const int fault = choose(#name, CALLER, static_cast<unsigned long>(request)); \
    if (fault > 0) {                                                              \
      errno = fault;                                                              \
      return -1;                                                                  \
    }                                                                             \
    if (fault == fault_short && count > 1) return actual fewer;                   \
    return actual arguments;                                                      \
  }

INTERPOSE(void*, MAP_FAILED, mmap64,
          (void* start, std::size_t bytes, int protection, int flags, int fd, off64_t offset),
          (start, bytes, protection, flags, fd, offset), 0)
INTERPOSE(int, -1, munmap, (void* start, std::size_t bytes), (start, bytes), 0)
INTERPOSE(int, -1, mprotect, (void* start, std::size_t bytes, int protection),
          (start, bytes, protection), protection)
INTERPOSE(int, -1, madvise, (void* start, std::size_t bytes, int advice), (start, bytes, advice),
          advice)
INTERPOSE(int, -1, mlock, (const void* start, std::size_t bytes), (start, bytes), 0)
INTERPOSE(int, -1, mincore, (void* start, std::size_t bytes, unsigned char* pages),
          (start, bytes, pages), 0)
INTERPOSE(int, -1, msync, (void* start, std::size_t bytes, int flags), (start, bytes, flags), 0)
INTERPOSE(DIR*, nullptr, opendir, (const char* path), (path), 0)
INTERPOSE(int, -1, memfd_create, (const char* name, unsigned flags), (name, flags), 0)
INTERPOSE(int, -1, ftruncate64, (int fd, off64_t bytes), (fd, bytes), 0)
INTERPOSE(int, -1, fallocate64, (int fd, int how, off64_t offset, off64_t bytes),
          (fd, how, offset, bytes), how)
INTERPOSE(off64_t, -1, lseek64, (int fd, off64_t offset, int whence), (fd, offset, whence), 0)
INTERPOSE(ssize_t, -1, readlink, (const char* path, char* to, std::size_t bytes), (path, to, bytes),
          0)
INTERPOSE(int, -1, stat64, (const char* path, struct stat64* status), (path, status), 0)
INTERPOSE(int, -1, fstat64, (int fd, struct stat64* status), (fd, status), 0)
INTERPOSE(int, -1, fstatfs64, (int fd, struct statfs64* status), (fd, status), 0)
INTERPOSE(int, -1, dup2, (int from, int to), (from, to), 0)
INTERPOSE(int, -1, pipe2, (int* ends, int flags), (ends, flags), 0)
INTERPOSE(int, -1, eventfd, (unsigned value, int flags), (value, flags), 0)
INTERPOSE(int, -1, socketpair, (int domain, int type, int protocol, int* ends),
          (domain, type, protocol, ends), 0)
INTERPOSE(int, -1, poll, (pollfd * descriptors, nfds_t count, int limit_ms),
          (descriptors, count, limit_ms), 0)
INTERPOSE(int, -1, ppoll,
          (pollfd * descriptors, nfds_t count, const timespec* limit, const sigset_t* mask),
          (descriptors, count, limit, mask), 0)
INTERPOSE(ssize_t, -1, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags), 0)
INTERPOSE(ssize_t, -1, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags), 0)
INTERPOSE(pid_t, -1, fork, (), (), 0)
INTERPOSE(pid_t, -1, waitpid, (pid_t pid, int* status, int options), (pid, status, options), 0)
INTERPOSE(int, -1, waitid, (idtype_t type, id_t id, siginfo_t* info, int options),
          (type, id, info, options), 0)
INTERPOSE(int, -1, sched_getaffinity, (pid_t pid, std::size_t bytes, cpu_set_t* set),
          (pid, bytes, set), 0)
INTERPOSE(int, -1, getrlimit64, (__rlimit_resource_t resource, struct rlimit64* limit),
          (resource, limit), resource)
INTERPOSE(int, -1, setrlimit64, (__rlimit_resource_t resource, const struct rlimit64* limit),
          (resource, limit), resource)
INTERPOSE(int, -1, sigaltstack, (const stack_t* stack, stack_t* old), (stack, old), 0)
INTERPOSE(int, -1, setpgid, (pid_t pid, pid_t group), (pid, group), 0)
INTERPOSE(int, -1, unlinkat, (int fd, const char* path, int flags), (fd, path, flags), 0)

extern "C" {
long mbind(void*, unsigned long, int, const unsigned long*, unsigned long, unsigned);
long move_pages(int, unsigned long, void**, const int*, int*, int);
struct io_uring;
struct io_uring_cqe;
int io_uring_queue_init(unsigned, io_uring*, unsigned);
int io_uring_submit(io_uring*);
int __io_uring_get_cqe(io_uring*, io_uring_cqe**, unsigned, unsigned, sigset_t*);
int io_uring_register_iowq_max_workers(io_uring*, unsigned*);
int io_uring_register_iowq_aff(io_uring*, std::size_t, const cpu_set_t*);
int io_uring_ring_dontfork(io_uring*);
}

INTERPOSE(int, -1, fsopen, (const char* name, unsigned flags), (name, flags), 0)
INTERPOSE(int, -1, fsconfig, (int fd, unsigned what, const char* key, const void* value, int more),
          (fd, what, key, value, more), what)
INTERPOSE(int, -1, fsmount, (int fd, unsigned flags, unsigned attributes), (fd, flags, attributes),
          0)
INTERPOSE(long, -1, mbind,
          (void* start, unsigned long bytes, int how, const unsigned long* nodes,
           unsigned long bits, unsigned flags),
          (start, bytes, how, nodes, bits, flags), 0)
INTERPOSE(long, -1, move_pages,
          (int pid, unsigned long count, void** pages, const int* nodes, int* status, int flags),
          (pid, count, pages, nodes, status, flags), 0)
INTERPOSE_RESULT(-, io_uring_queue_init, (unsigned entries, io_uring* ring, unsigned flags),
                 (entries, ring, flags))
INTERPOSE_RESULT(-, io_uring_submit, (io_uring * ring), (ring))
INTERPOSE_RESULT(-, __io_uring_get_cqe,
                 (io_uring * ring, io_uring_cqe** entry, unsigned submit, unsigned wait,
                  sigset_t* mask),
                 (ring, entry, submit, wait, mask))
INTERPOSE_RESULT(-, io_uring_register_iowq_max_workers, (io_uring * ring, unsigned* values),
                 (ring, values))
INTERPOSE_RESULT(-, io_uring_register_iowq_aff,
                 (io_uring * ring, std::size_t bytes, const cpu_set_t* set), (ring, bytes, set))
INTERPOSE_RESULT(-, io_uring_ring_dontfork, (io_uring * ring), (ring))
INTERPOSE_RESULT(, pthread_setaffinity_np,
                 (pthread_t thread, std::size_t bytes, const cpu_set_t* set), (thread, bytes, set))

INTERPOSE_COUNT(read, (int fd, void* to, std::size_t count), (fd, to, count), (fd, to, count / 2),
                mode == Mode::off ? 0 : kind_of(fd))
INTERPOSE_COUNT(write, (int fd, const void* from, std::size_t count), (fd, from, count),
                (fd, from, count / 2), mode == Mode::off ? 0 : kind_of(fd))
INTERPOSE_COUNT(pread64, (int fd, void* to, std::size_t count, off64_t offset),
                (fd, to, count, offset), (fd, to, count / 2, offset), 0)
INTERPOSE_COUNT(pwrite64, (int fd, const void* from, std::size_t count, off64_t offset),
                (fd, from, count, offset), (fd, from, count / 2, offset), 0)

extern "C" [[gnu::visibility("default")]] ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                                   unsigned long locals,
                                                                   const iovec* remote,
                                                                   unsigned long remotes,
                                                                   unsigned long flags) {
  REAL(process_vm_readv);
  const int fault = choose("process_vm_readv", CALLER, 0);
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  if (fault == fault_short && locals == 1 && remotes == 1 && local->iov_len > 1) {
    const iovec part{local->iov_base, local->iov_len / 2};
    return actual(pid, &part, 1, remote, 1, flags);
  }
  return actual(pid, local, locals, remote, remotes, flags);
}

// Closes the descriptor even if a fault is injected.
extern "C" [[gnu::visibility("default")]] int close(int fd) {
  REAL(close);
  const int fault = choose("close", CALLER, 0);
  const int result = actual(fd);
  if (fault <= 0 || result != 0) return result;
  errno = fault;
  return -1;
}

extern "C" [[gnu::visibility("default")]] int open64(const char* path, int flags, ...) {
  REAL(open64);
  REST(unsigned, 1, flags);
  if (fails("open64", CALLER)) return -1;
  return actual(path, flags, rest[0]);
}

extern "C" [[gnu::visibility("default")]] int openat64(int folder, const char* path, int flags,
                                                       ...) {
  REAL(openat64);
  REST(unsigned, 1, flags);
  if (fails("openat64", CALLER)) return -1;
  return actual(folder, path, flags, rest[0]);
}

extern "C" [[gnu::visibility("default")]] int fcntl64(int fd, int command, ...) {
  REAL(fcntl64);
  REST(void*, 1, command);
  if (fails("fcntl64", CALLER, static_cast<unsigned long>(command))) return -1;
  return actual(fd, command, rest[0]);
}

extern "C" [[gnu::visibility("default")]] int prctl(int option, ...) {
  REAL(prctl);
  REST(unsigned long, 4, option);
  if (fails("prctl", CALLER, static_cast<unsigned long>(option))) return -1;
  return actual(option, rest[0], rest[1], rest[2], rest[3]);
}

extern "C" [[gnu::visibility("default")]] void* mremap(void* old, std::size_t old_bytes,
                                                       std::size_t bytes, int flags, ...) {
  REAL(mremap);
  REST(void*, 1, flags);
  if (fails("mremap", CALLER)) return MAP_FAILED;
  return actual(old, old_bytes, bytes, flags, rest[0]);
}

namespace {

// Does the first half of a userfaultfd request, and returns what Linux returns if it stopped there.
// `length` and `done` are the request's fields for the length and for the result.
template <typename Ioctl, typename Request>
int do_half(int fd, unsigned long request, Ioctl* actual, Request& asked, __u64& length,
            __s64& done) {
  const __u64 whole = length;
  const __u64 half = whole / 2 / 4096 * 4096;
  if (half == 0) return actual(fd, request, &asked);
  length = half;
  const int result = actual(fd, request, &asked);
  length = whole;
  if (result != 0) return result;
  done = static_cast<__s64>(half);
  errno = EAGAIN;
  return -1;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int ioctl(int fd, unsigned long request, ...) {
  REAL(ioctl);
  REST(void*, 1, request);
  void* const argument = rest[0];
  const int fault = choose("ioctl", CALLER, request);
  if (fault == fault_short) {
    if (request == UFFDIO_COPY) {
      auto& asked = *static_cast<uffdio_copy*>(argument);
      return do_half(fd, request, actual, asked, asked.len, asked.copy);
    }
    if (request == UFFDIO_ZEROPAGE) {
      auto& asked = *static_cast<uffdio_zeropage*>(argument);
      return do_half(fd, request, actual, asked, asked.range.len, asked.zeropage);
    }
    if (request == UFFDIO_CONTINUE) {
      auto& asked = *static_cast<uffdio_continue*>(argument);
      return do_half(fd, request, actual, asked, asked.range.len, asked.mapped);
    }
  }
  if (fault > 0) {
    const __s64 answer = -fault;
    if (request == UFFDIO_COPY) static_cast<uffdio_copy*>(argument)->copy = answer;
    if (request == UFFDIO_ZEROPAGE) static_cast<uffdio_zeropage*>(argument)->zeropage = answer;
    if (request == UFFDIO_CONTINUE) static_cast<uffdio_continue*>(argument)->mapped = answer;
    errno = fault;
    return -1;
  }
  return actual(fd, request, argument);
}

extern "C" [[gnu::visibility("default")]] long syscall(long number, ...) {
  REAL(syscall);
  REST(long, 6, number);
  // A wait may end early at any time; a wake always succeeds.
  const bool is_wake = number == SYS_futex && (rest[1] & 0x7f) == 1;
  if (!is_wake && fails("syscall", CALLER, static_cast<unsigned long>(number))) return -1;
  return actual(number, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]);
}

extern "C" [[gnu::visibility("default")]] int clone(int (*function)(void*), void* stack, int flags,
                                                    void* argument, ...) {
  REAL(clone);
  REST(void*, 3, argument);
  if (fails("clone", CALLER)) return -1;
  return actual(function, stack, flags, argument, rest[0], rest[1], rest[2]);
}

// For std::thread the C++ library makes the call: then the call site is found in the backtrace.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*function)(void*),
                                                             void* argument) {
  REAL(pthread_create);
  void* caller = CALLER;
  if (mode != Mode::off && !busy && cxx_library.has(reinterpret_cast<std::uintptr_t>(caller))) {
    void* frames[8];
    busy = true;
    const int count = backtrace(frames, 8);
    busy = false;
    for (int i = 0; i < count; ++i) {
      caller = frames[i];
      const auto address = reinterpret_cast<std::uintptr_t>(caller);
      if (i > 0 && !cxx_library.has(address)) break;
    }
  }
  if (const int fault = choose("pthread_create", caller, 0); fault > 0) return fault;
  return actual(thread, attributes, function, argument);
}
