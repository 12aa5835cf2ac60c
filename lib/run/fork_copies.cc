#include "run/fork_copies.h"

#include <sys/mman.h>
#include <unistd.h>
#include <wherry/wherry.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "os/process/resource_limits.h"
#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/real.h"
#include "run/session.h"

namespace wherry::run {
namespace {

// What the forking thread hands to its child. The thread holds the regions' lock, so that no other
// thread forks.
struct Copies {
  std::vector<ManagedRegions::Range> ranges;
  int file = -1;  // -1: there is nothing to copy
};
std::optional<Copies> copies;
// True while the calling thread is between before() and after_in_parent() or after_in_child().
[[gnu::tls_model("initial-exec")]] thread_local bool forks = false;

void complain() {
  constexpr char text[] = "wherry run: no space for the memory of a forked child\n";
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
}

// Returns false if there is no space.
bool copy(Copies& copies) {
  std::uint64_t bytes = 0;
  for (const auto& range : copies.ranges) bytes += range.bytes();
  if (bytes == 0) return true;
  if (!impl::may_write_to(bytes)) return false;
  copies.file = ::memfd_create("wherry-fork", MFD_CLOEXEC);
  if (copies.file < 0 || ::ftruncate(copies.file, static_cast<off_t>(bytes)) != 0) return false;
  off_t offset = 0;
  for (const auto& range : copies.ranges) {
    const auto pointer = static_cast<CUdeviceptr>(range.start);
    if (wherrySavePages(pointer, range.bytes(), copies.file, offset) != CUDA_SUCCESS) return false;
    offset += static_cast<off_t>(range.bytes());
  }
  note_fork_copies(bytes);
  return true;
}

void before() {
  // The library's own forks make device processes, which are no copies of the program.
  if (OwnCalls::active()) return;
  const OwnCalls own;
  OwnCalls::begin();  // until the fork is over: no signal handler runs in this thread
  forks = true;
  auto ranges = ManagedRegions::instance().begin_fork();
  copies.emplace();
  copies->ranges = std::move(ranges);
  if (copy(*copies)) return;
  // If there is no space for copies, the memory becomes private: Linux copies it for the child, and
  // Wherry does not place it any more.
  ManagedRegions::instance().make_all_private();
  copies->ranges.clear();
}

void end() {
  forks = false;
  if (copies->file >= 0) ::close(copies->file);
  copies.reset();
}

void after_in_parent() {
  if (!forks) return;
  const OwnCalls own;
  end();
  ManagedRegions::instance().end_fork_in_parent();
  OwnCalls::end();
}

// Maps the copies: the arena is not in the child (MADV_DONTFORK).
void after_in_child() {
  if (!forks) return;
  const OwnCalls own;
  become_child();
  off_t offset = 0;
  for (const auto& range : copies->ranges) {
    if (::mmap(reinterpret_cast<void*>(range.start), range.bytes(), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, copies->file, offset) == MAP_FAILED)
      complain();
    offset += static_cast<off_t>(range.bytes());
  }
  end();
  ManagedRegions::instance().end_fork_in_child();
  OwnCalls::end();
}

using Handler = void();
using Register = int(Handler*, Handler*, Handler*, void*);

}  // namespace

void prepare_forks() {
  static bool is_prepared = false;  // the first call is before the program has threads
  if (std::exchange(is_prepared, true)) return;
  // The handlers belong to no library, so they stay while destructors run, which may fork.
  (void)Real<"__register_atfork", Register>::get()(before, after_in_parent, after_in_child,
                                                   nullptr);
}

}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

// pthread_atfork() calls this, also in libraries that are initialized before this one.
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* object) noexcept {
  prepare_forks();
  return Real<"__register_atfork", Register>::get()(prepare, parent, child, object);
}

}  // extern "C"
#pragma GCC visibility pop
