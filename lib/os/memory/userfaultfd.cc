#include "os/memory/userfaultfd.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>

#include "base/check.h"
#include "os/kernel_abi.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t required_features =
    UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
    abi::userfaultfd_feature_wp_shmem | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_THREAD_ID;

// The device's file permissions grant full access, for which the system call requires
// CAP_SYS_PTRACE.
int create_by_device() {
  const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (!device) return -1;
  return ::ioctl(device.get(), abi::new_userfaultfd, O_CLOEXEC | O_NONBLOCK);
}

int create_by_call(int flags) {
  return static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags));
}

// Performs the handshake. Returns 0 and sets `offered`, or returns an errno. After EINVAL the
// caller may repeat it with fewer features.
int begin_with(int fd, std::uint64_t features, std::uint64_t& offered) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (::ioctl(fd, UFFDIO_API, &api) != 0) return errno;
  offered = api.features;
  return 0;
}

OpStatus status_of(int error, const char* operation) {
  switch (error) {
    case 0:
      return OpStatus::ok;
    case EEXIST:
      return OpStatus::occupied;
    case EAGAIN:
      return OpStatus::incomplete;
    case ENOENT:
      return OpStatus::gone;
    case ESRCH:
      return OpStatus::process_gone;
    case ENOSPC:
    case ENOMEM:
      return OpStatus::no_memory;
    case EINVAL:
      return OpStatus::unsupported;
    case EFAULT:
      return OpStatus::absent;
  }
  WHERRY_FAIL("{}: unexpected errno {}", operation, error);
}

// Runs an ioctl whose argument reports its progress in `done` (a negative value repeats the errno).
template <typename Request>
OpResult run(int fd, unsigned long code, Request& request, const __s64& done, std::size_t bytes,
             const char* operation) {
  if (::ioctl(fd, code, &request) == 0) return {OpStatus::ok, bytes};
  const int error = errno;
  return {status_of(error, operation), done > 0 ? static_cast<std::size_t>(done) : 0};
}

int register_modes(int fd, std::uintptr_t start, std::size_t bytes, std::uint64_t modes) {
  uffdio_register request{};
  request.range = {start, bytes};
  request.mode = modes;
  return ::ioctl(fd, UFFDIO_REGISTER, &request) == 0 ? 0 : errno;
}

}  // namespace

const char* to_string(OpStatus status) {
  switch (status) {
    case OpStatus::ok:
      return "ok";
    case OpStatus::occupied:
      return "occupied";
    case OpStatus::incomplete:
      return "incomplete";
    case OpStatus::gone:
      return "gone";
    case OpStatus::process_gone:
      return "process gone";
    case OpStatus::no_memory:
      return "no memory";
    case OpStatus::unsupported:
      return "unsupported";
    case OpStatus::absent:
      return "absent";
    case OpStatus::held:
      return "held";
    case OpStatus::bad_address:
      return "bad address";
  }
  return "?";
}

Fd Userfaultfd::create(UffdAccess access) {
  Fd fd(try_create(access));
  if (!fd) throw_errno(errno, "userfaultfd");
  return fd;
}

int Userfaultfd::try_create(UffdAccess access) {
  switch (access) {
    case UffdAccess::user_mode_only:
      return create_by_call(UFFD_USER_MODE_ONLY);
    case UffdAccess::device:
      return create_by_device();
    case UffdAccess::full:
      return create_by_call(0);
  }
  errno = EPERM;
  return -1;
}

int Userfaultfd::begin(int fd, std::uint64_t& offered) {
  return begin_with(fd, required_features, offered);
}

Userfaultfd::Userfaultfd(Fd fd, bool raises_sigbus)
    : fd_(std::move(fd)), raises_sigbus_(raises_sigbus) {
  const std::uint64_t features = required_features | (raises_sigbus ? UFFD_FEATURE_SIGBUS : 0);
  std::uint64_t offered = 0;
  int error = begin_with(fd_.get(), features | abi::userfaultfd_feature_poison, offered);
  if (error == EINVAL) error = begin_with(fd_.get(), features, offered);
  if (error != 0)
    throw_errno(error, "userfaultfd lacks minor and write-protect faults on shared memory");
  has_poison_ = (offered & abi::userfaultfd_feature_poison) != 0;
}

int Userfaultfd::register_range(int fd, std::uintptr_t start, std::size_t bytes) {
  return register_modes(
      fd, start, bytes,
      UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP);
}

int Userfaultfd::unregister_range(std::uintptr_t start, std::size_t bytes) const {
  uffdio_range range{start, bytes};
  return ::ioctl(fd(), UFFDIO_UNREGISTER, &range) == 0 ? 0 : errno;
}

int Userfaultfd::register_writes(std::uintptr_t start, std::size_t bytes) const {
  return register_modes(fd(), start, bytes, UFFDIO_REGISTER_MODE_WP);
}

int Userfaultfd::register_missing(std::uintptr_t start, std::size_t bytes) const {
  return register_modes(fd(), start, bytes, UFFDIO_REGISTER_MODE_MISSING);
}

std::optional<FaultMessage> Userfaultfd::read_message() const {
  uffd_msg read;
  for (;;) {
    const ssize_t got = ::read(fd_.get(), &read, sizeof read);
    if (got == sizeof read) break;
    if (got < 0 && errno == EINTR) continue;
    return std::nullopt;
  }
  if (read.event != UFFD_EVENT_PAGEFAULT) return std::nullopt;
  const std::uint64_t flags = read.arg.pagefault.flags;
  FaultMessage message;
  message.address = read.arg.pagefault.address;
  message.thread = read.arg.pagefault.feat.ptid;
  message.write = (flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0;
  message.write_protect = (flags & UFFD_PAGEFAULT_FLAG_WP) != 0;
  message.minor = (flags & UFFD_PAGEFAULT_FLAG_MINOR) != 0;
  return message;
}

OpResult Userfaultfd::copy(std::uintptr_t target, const void* source, std::size_t bytes,
                           bool write_protected) const {
  uffdio_copy request{};
  request.dst = target;
  request.src = reinterpret_cast<std::uintptr_t>(source);
  request.len = bytes;
  request.mode = UFFDIO_COPY_MODE_DONTWAKE | (write_protected ? UFFDIO_COPY_MODE_WP : 0);
  return run(fd_.get(), UFFDIO_COPY, request, request.copy, bytes, "UFFDIO_COPY");
}

OpResult Userfaultfd::zero(std::uintptr_t target, std::size_t bytes) const {
  uffdio_zeropage request{};
  request.range = {target, bytes};
  request.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE;
  return run(fd_.get(), UFFDIO_ZEROPAGE, request, request.zeropage, bytes, "UFFDIO_ZEROPAGE");
}

OpResult Userfaultfd::map_resident(std::uintptr_t target, std::size_t bytes,
                                   bool write_protected) const {
  uffdio_continue request{};
  request.range = {target, bytes};
  request.mode =
      UFFDIO_CONTINUE_MODE_DONTWAKE | (write_protected ? abi::continue_write_protected : 0);
  return run(fd_.get(), UFFDIO_CONTINUE, request, request.mapped, bytes, "UFFDIO_CONTINUE");
}

OpResult Userfaultfd::write_protect(std::uintptr_t target, std::size_t bytes) const {
  uffdio_writeprotect request{};
  request.range = {target, bytes};
  request.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  return run(fd_.get(), UFFDIO_WRITEPROTECT, request, 0, bytes, "UFFDIO_WRITEPROTECT");
}

OpResult Userfaultfd::write_unprotect(std::uintptr_t target, std::size_t bytes) const {
  uffdio_writeprotect request{};
  request.range = {target, bytes};
  request.mode = UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
  return run(fd_.get(), UFFDIO_WRITEPROTECT, request, 0, bytes, "UFFDIO_WRITEPROTECT");
}

OpResult Userfaultfd::poison(std::uintptr_t target, std::size_t bytes) const {
  if (!has_poison_) return {OpStatus::unsupported, 0};
  abi::Poison request{};
  request.range = {target, bytes};
  request.mode = abi::poison_dont_wake;
  return run(fd_.get(), abi::userfaultfd_poison, request, request.updated, bytes, "UFFDIO_POISON");
}

OpResult Userfaultfd::wake(std::uintptr_t target, std::size_t bytes) const {
  if (raises_sigbus_) return {OpStatus::ok, bytes};  // no thread sleeps
  uffdio_range request{target, bytes};
  return run(fd_.get(), UFFDIO_WAKE, request, 0, bytes, "UFFDIO_WAKE");
}

}  // namespace wherry::impl
