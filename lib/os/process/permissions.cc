#include "os/process/permissions.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "os/files/fd.h"
#include "os/kernel_abi.h"
#include "os/process/helper_call.h"

namespace wherry::impl {
namespace {

using Verdict = Answer::Verdict;

// Shared between the probing process and the thread that waits for it.
struct Attempt {
  Permissions found;
  std::atomic<std::size_t> next = 0;  // the request that is being tried
};

Answer answer_of(int error) {
  return error == 0 ? Answer{Verdict::permitted, 0} : Answer{Verdict::refused, error};
}

Answer try_userfaultfd(UffdAccess access, std::uint64_t& features) {
  const Fd fd(Userfaultfd::try_create(access));
  // Linux before 5.11 does not know the user-mode form.
  if (!fd && errno == EINVAL) return {Verdict::too_old, EINVAL};
  if (!fd) return answer_of(errno);
  const int error = Userfaultfd::begin(fd.get(), features);
  return error == EINVAL ? Answer{Verdict::too_old, error} : answer_of(error);
}

Answer try_io_uring() {
  io_uring_params params{};
  const Fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 2, &params)));
  if (!ring) return answer_of(errno);
  // The library needs operations that are not reported when they succeed (Linux 5.17). The
  // madvise() with which a ring creates pages is older (5.14).
  if ((params.features & abi::uring_feature_cqe_skip) == 0) return {Verdict::too_old, 0};
  // A seccomp filter may treat the three system calls differently. This call submits nothing.
  if (::syscall(SYS_io_uring_enter, ring.get(), 0, 0, 0, nullptr, 0) < 0) return answer_of(errno);
  unsigned unchanged[2] = {0, 0};
  if (::syscall(SYS_io_uring_register, ring.get(), IORING_REGISTER_IOWQ_MAX_WORKERS, unchanged, 2) <
          0 &&
      errno != EINVAL)
    return answer_of(errno);
  return answer_of(0);
}

Answer try_request(Request request, Permissions& found) {
  switch (request) {
    case Request::userfaultfd:
      return try_userfaultfd(UffdAccess::full, found.userfaultfd_features);
    case Request::userfaultfd_device:
      return try_userfaultfd(UffdAccess::device, found.userfaultfd_features);
    case Request::userfaultfd_user_mode:
      return try_userfaultfd(UffdAccess::user_mode_only, found.userfaultfd_features);
    case Request::io_uring:
      break;
  }
  return try_io_uring();
}

// Runs in the probing process.
void try_the_rest(void* pointer) {
  Attempt& attempt = *static_cast<Attempt*>(pointer);
  expect_to_be_killed();
  for (std::size_t i; (i = attempt.next) < request_count; ++attempt.next)
    attempt.found.answers[i] = try_request(static_cast<Request>(i), attempt.found);
}

}  // namespace

std::string to_string(const Answer& answer) {
  switch (answer.verdict) {
    case Verdict::not_tried:
      return answer.error == 0
                 ? "was not tried"
                 : fmt::format("could not be tried ({})", std::strerror(answer.error));
    case Verdict::permitted:
      return "is permitted";
    case Verdict::refused:
      return fmt::format("is refused ({})", std::strerror(answer.error));
    case Verdict::too_old:
      return "in this version of Linux lacks what the library needs";
    case Verdict::killed:
      return "kills the calling process (a seccomp filter)";
    case Verdict::unending:
      return "is not answered (a seccomp filter)";
  }
  return "?";
}

std::optional<UffdAccess> Permissions::userfaultfd() const {
  if ((*this)[Request::userfaultfd]) return UffdAccess::full;
  if ((*this)[Request::userfaultfd_device]) return UffdAccess::device;
  if ((*this)[Request::userfaultfd_user_mode]) return UffdAccess::user_mode_only;
  return std::nullopt;
}

Permissions try_permissions() {
  Attempt attempt;
  for (; attempt.next < request_count; ++attempt.next) {
    const HelperEnd end = call_in_helper(0, try_the_rest, &attempt);
    if (end.start_error != 0) {
      // No probing process can start, and so no device process either: nothing more is tried.
      for (std::size_t i = attempt.next; i < request_count; ++i)
        attempt.found.answers[i] = {Verdict::not_tried, end.start_error};
      break;
    }
    if (attempt.next == request_count) break;
    attempt.found.answers[attempt.next] = {end.unending ? Verdict::unending : Verdict::killed, 0};
    if (end.unending) break;  // one timeout is enough
  }
  return attempt.found;
}

const Permissions& permissions() {
  static const Permissions found = try_permissions();
  return found;
}

}  // namespace wherry::impl
