#include "measure/bare_trap.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <numa.h>
#include <numaif.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "measure/timing.h"

namespace wherry::bench {
namespace {

// The best kind of userfaultfd that is permitted; negative if there is none.
int try_userfaultfd() {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  constexpr int user_mode_only = 1;
  if (const long uffd = ::syscall(SYS_userfaultfd, flags); uffd >= 0) return static_cast<int>(uffd);
  if (const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); device >= 0) {
    const int uffd = ::ioctl(device, _IO(0xAA, 0), flags);
    ::close(device);
    if (uffd >= 0) return uffd;
  }
  return static_cast<int>(::syscall(SYS_userfaultfd, flags | user_mode_only));
}

// Returns false if the pages are there already.
template <typename Request>
bool create(int uffd, unsigned long code, Request& request, const char* name) {
  if (::ioctl(uffd, code, &request) == 0) return true;
  if (errno != EEXIST) fail(name);
  return false;
}

bool copy(int uffd, std::uintptr_t start, const void* source, std::size_t bytes,
          std::uint64_t mode) {
  uffdio_copy request{};
  request.dst = start;
  request.src = reinterpret_cast<std::uintptr_t>(source);
  request.len = bytes;
  request.mode = mode;
  return create(uffd, UFFDIO_COPY, request, "UFFDIO_COPY");
}

}  // namespace

double timed_touch(std::byte* memory, std::size_t bytes, std::size_t stride) {
  const double start = now_ns();
  for (std::size_t offset = 0; offset < bytes; offset += stride) {
    *const_cast<volatile std::byte*>(memory + offset) = std::byte{1};
  }
  return now_ns() - start;
}

bool userfaultfd_permitted() {
  // Tries in a child process, because a seccomp filter may answer the call with a signal.
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) ::_exit(try_userfaultfd() < 0);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int open_raw_userfaultfd() {
  const int uffd = try_userfaultfd();
  if (uffd < 0) fail("userfaultfd");
  return uffd;
}

void enable_userfaultfd(int uffd) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                 UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  if (::ioctl(uffd, UFFDIO_API, &api) != 0) fail("UFFDIO_API");
}

int open_userfaultfd() {
  const int uffd = open_raw_userfaultfd();
  enable_userfaultfd(uffd);
  return uffd;
}

void register_range(int uffd, void* start, std::size_t bytes) {
  uffdio_register request{};
  request.range = {reinterpret_cast<std::uintptr_t>(start), bytes};
  request.mode =
      UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(uffd, UFFDIO_REGISTER, &request) != 0) fail("UFFDIO_REGISTER");
}

void zero_pages(int uffd, std::uintptr_t start, std::size_t bytes) {
  uffdio_zeropage request{};
  request.range = {start, bytes};
  if (!create(uffd, UFFDIO_ZEROPAGE, request, "UFFDIO_ZEROPAGE")) wake(uffd, start, bytes);
}

void copy_pages(int uffd, std::uintptr_t start, const void* source, std::size_t bytes) {
  if (!copy(uffd, start, source, bytes, 0)) wake(uffd, start, bytes);
}

bool copy_write_protected(int uffd, std::uintptr_t start, const void* source, std::size_t bytes) {
  return copy(uffd, start, source, bytes, UFFDIO_COPY_MODE_WP | UFFDIO_COPY_MODE_DONTWAKE);
}

void set_write_protection(int uffd, std::uintptr_t start, std::size_t bytes, bool protect) {
  uffdio_writeprotect request{};
  request.range = {start, bytes};
  request.mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
  if (::ioctl(uffd, UFFDIO_WRITEPROTECT, &request) != 0) fail("UFFDIO_WRITEPROTECT");
}

void wake(int uffd, std::uintptr_t start, std::size_t bytes) {
  uffdio_range range{start, bytes};
  if (::ioctl(uffd, UFFDIO_WAKE, &range) != 0) fail("UFFDIO_WAKE");
}

BarePool::BarePool(std::size_t bytes)
    : fd_(::memfd_create("bare-pool", MFD_CLOEXEC)), bytes_(bytes) {
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("memfd");
}

BarePool::~BarePool() {
  ::close(fd_);
}

std::byte* BarePool::map() const {
  constexpr std::size_t alignment = std::size_t{2} << 20;
  void* const reservation = ::mmap(nullptr, bytes_ + alignment, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) fail("mmap of address space");
  const auto start =
      (reinterpret_cast<std::uintptr_t>(reservation) + alignment - 1) & ~(alignment - 1);
  const auto place = reinterpret_cast<std::byte*>(start);
  map_over(place);
  return place;
}

void BarePool::map_over(std::byte* place) const {
  if (::mmap(place, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) == MAP_FAILED) {
    fail("mmap of a pool");
  }
  // On a machine with several nodes, bind the pool to its node, as the library does; that makes
  // each page allocation a little slower.
  if (::numa_available() < 0 || ::numa_num_configured_nodes() < 2) return;
  bitmask* const nodes = ::numa_allocate_nodemask();
  ::numa_bitmask_setbit(nodes, static_cast<unsigned>(::numa_node_of_cpu(::sched_getcpu())));
  if (::mbind(place, bytes_, MPOL_BIND, nodes->maskp, nodes->size + 1, 0) != 0) fail("mbind");
  ::numa_free_nodemask(nodes);
}

void BarePool::punch(std::size_t offset, std::size_t bytes) const {
  if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes)) != 0) {
    fail("fallocate");
  }
}

BareTrap::BareTrap(std::vector<int> descriptors, Resolve resolve)
    : descriptors_(std::move(descriptors)),
      resolve_(std::move(resolve)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (stop_ < 0) fail("eventfd");
  const int cpus = static_cast<int>(allowed_cpus().size());
  for (int i = 0; i < cpus; ++i) handlers_.emplace_back([this, i] { serve(i); });
}

BareTrap::~BareTrap() {
  const std::uint64_t one = 1;
  if (::write(stop_, &one, sizeof one) != sizeof one) fail("eventfd write");
  for (std::thread& handler : handlers_) handler.join();
  ::close(stop_);
}

void BareTrap::serve(int cpu_index) {
  pin_to_allowed_cpu(cpu_index);
  std::vector<pollfd> polled;
  for (const int descriptor : descriptors_) polled.push_back({descriptor, POLLIN, 0});
  polled.push_back({stop_, POLLIN, 0});
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) fail("poll");
    if (polled.back().revents != 0) return;
    for (std::size_t source = 0; source < descriptors_.size(); ++source) {
      if (polled[source].revents == 0) continue;
      uffd_msg message{};
      // If another handler was faster, there is nothing to read.
      if (::read(descriptors_[source], &message, sizeof message) != sizeof message) continue;
      if (message.event == UFFD_EVENT_PAGEFAULT) resolve_(source, message.arg.pagefault.address);
    }
  }
}

}  // namespace wherry::bench
