#include "run/fork_copies.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wherry/wherry.h>

#include <cstdint>
#include <optional>

#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/session.h"

namespace wherry::run {
namespace {

// What the forking thread hands to its child. Only one thread forks: it holds the regions' lock.
struct Copies {
  std::vector<ManagedRegions::Range> ranges;
  int file = -1;  // -1: there is nothing to copy
};
std::optional<Copies> copies;

// A child that calls exec at once is not concerned.
void complain() {
  constexpr char text[] =
      "wherry run: no space for a copy of the program's memory, so its child (fork) has only what "
      "is smaller than --min-size\n";
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
}

// Returns false if there is no space.
bool copy(Copies& copies) {
  std::uint64_t bytes = 0;
  for (const auto& range : copies.ranges) bytes += range.bytes();
  if (bytes == 0) return true;
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
  if (!has_started()) return;
  const OwnCalls own;
  copies.emplace();
  copies->ranges = ManagedRegions::instance().begin_fork();
  if (copy(*copies)) return;
  complain();
  copies->ranges.clear();
}

void after_in_parent() {
  if (!copies) return;
  const OwnCalls own;
  if (copies->file >= 0) ::close(copies->file);
  copies.reset();
  ManagedRegions::instance().end_fork_in_parent();
}

// The arena is not in the child (MADV_DONTFORK).
void after_in_child() {
  become_child();
  if (!copies) return;
  const OwnCalls own;
  off_t offset = 0;
  for (const auto& range : copies->ranges) {
    if (::mmap(reinterpret_cast<void*>(range.start), range.bytes(), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, copies->file, offset) == MAP_FAILED)
      complain();
    offset += static_cast<off_t>(range.bytes());
  }
  if (copies->file >= 0) ::close(copies->file);
  copies.reset();
  ManagedRegions::instance().end_fork_in_child();
}

}  // namespace

void prepare_forks() {
  ::pthread_atfork(before, after_in_parent, after_in_child);
}

}  // namespace wherry::run
