#include "os/files/hole_probe.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/page.h"
#include "base/patience.h"
#include "os/files/file_io.h"
#include "os/files/huge_tmpfs.h"
#include "os/kernel_abi.h"
#include "os/memory/mapping.h"
#include "os/memory/userfaultfd.h"
#include "os/process/permissions.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {
namespace {

constexpr std::size_t probe_bytes = std::size_t{2} << 20;
// khugepaged holds a page for less than a millisecond if it gets a CPU, and for some ten
// milliseconds in an emulated machine.
constexpr std::uint64_t trial_limit_ns = 2'000'000'000;
constexpr int pause_ms = 1;

using Found = HoleProbe::Found;

HoleProbe not_tried(const char* step, int error) {
  return {Found::not_tried, step, error};
}

// Does not use st_blocks, which includes the pages that a merge would add while Linux tries to
// merge.
bool has_holes(int fd) {
  return ::lseek(fd, 0, SEEK_HOLE) < static_cast<off_t>(probe_bytes);
}

class Trial {
 public:
  Trial(int fd, HoleGuard guard)
      : fd_(fd),
        guard_(guard),
        guarded_(Mapping::reserve(probe_bytes, probe_bytes)),
        free_(Mapping::reserve(probe_bytes, probe_bytes)) {}

  // Any result but not_tried is final, whatever else Linux does with the file meanwhile.
  HoleProbe run() {
    if (const int error = set_up()) return not_tried("mapping a file", error);
    if (const int error = create_first_page()) return not_tried("creating a page", error);
    const int refused = merge();
    if (!has_holes(fd_)) return {Found::filled};
    // Linux did not refuse because of the holes: it may only have been busy, and fill them later.
    if (refused == 0 || refused == EAGAIN) return not_tried("merging pages", EAGAIN);
    lift_guard();
    const int unguarded = merge();
    if (has_holes(fd_)) return not_tried("merging pages", unguarded != 0 ? unguarded : EAGAIN);
    return {Found::kept};
  }

 private:
  bool by_userfaultfd() const { return guard_ == HoleGuard::userfaultfd; }

  // Maps the file in the way in which pools are mapped.
  int show(const Mapping& place, bool huge_pages) const {
    int error = map_closed(place.address(), {fd_, 0, probe_bytes});
    if (error == 0) error = prepare_view(place.address(), probe_bytes, huge_pages);
    return error;
  }
  static int permit(const Mapping& place) {
    return set_access(place.address(), place.size(), Access::write);
  }

  int set_up() {
    int error = show(guarded_, /*huge_pages=*/by_userfaultfd());
    if (error != 0 || !by_userfaultfd()) return error != 0 ? error : permit(guarded_);
    const std::optional<UffdAccess> access = permissions().userfaultfd();
    if (!access) return EPERM;
    trap_.emplace(Userfaultfd::create(*access), /*raises_sigbus=*/true);
    error = trap_->register_missing(guarded_.address(), guarded_.size());
    if (error == 0) error = permit(guarded_);
    if (error == 0) error = show(free_, /*huge_pages=*/true);
    return error != 0 ? error : permit(free_);
  }

  int create_first_page() {
    // An earlier trial may have filled the file.
    if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, probe_bytes) != 0)
      return errno;
    if (!by_userfaultfd()) return -populate({guarded_.data(), page_size});
    return trap_->zero(guarded_.address(), page_size) ? 0 : ENOMEM;
  }

  int merge() const {
    const Mapping& place = by_userfaultfd() ? free_ : guarded_;
    // The read creates a page table, without which Linux does not merge.
    (void)*const_cast<const volatile std::byte*>(place.data());
    return -merge_pages({place.data(), probe_bytes});
  }

  void lift_guard() {
    if (by_userfaultfd())
      trap_.reset();
    else
      (void)::madvise(guarded_.data(), guarded_.size(), MADV_HUGEPAGE);
  }

  const int fd_;
  const HoleGuard guard_;
  const Mapping guarded_;
  const Mapping free_;
  std::optional<Userfaultfd> trap_;
};

HoleProbe probe_in_own_file(HoleGuard guard) {
  // Linux before 6.1 merges pages in the background only. For an empty range, madvise() fails only
  // if Linux does not know the advice.
  if (::madvise(nullptr, 0, abi::collapse) != 0) return not_tried("merging pages", errno);
  const HugeTmpfsFiles made = create_on_huge_tmpfs("wherry-probe");
  if (made.files.empty()) return not_tried(made.refused, made.error);
  const int fd = made.files.front().get();
  if (const int error = set_file_size(fd, probe_bytes)) return not_tried("sizing a file", error);
  return probe_holes_of(fd, guard);
}

}  // namespace

bool HoleProbe::may_succeed_later() const {
  return found == Found::not_tried && (error == ENOMEM || error == EAGAIN || error == EBUSY);
}

HoleProbe probe_holes_of(int fd, HoleGuard guard) {
  Patience patience(trial_limit_ns, AtLimit::goes_on);
  for (;;) {
    HoleProbe found;
    try {
      found = Trial(fd, guard).run();
    } catch (const std::system_error& refused) {
      return not_tried("mapping a file", refused.code().value());
    }
    if (found.found != Found::not_tried || !found.may_succeed_later() || patience.is_over())
      return found;
    ::poll(nullptr, 0, pause_ms);
    patience.note_wait();
  }
}

const HoleProbe& probe_holes(HoleGuard guard) {
  if (guard == HoleGuard::userfaultfd) {
    static const HoleProbe found = probe_in_own_file(HoleGuard::userfaultfd);
    return found;
  }
  static const HoleProbe found = probe_in_own_file(HoleGuard::small_mapping);
  return found;
}

std::string reason_of(const HoleProbe& probe) {
  return fmt::format("{} failed ({})", probe.step, std::strerror(probe.error));
}

}  // namespace wherry::impl
