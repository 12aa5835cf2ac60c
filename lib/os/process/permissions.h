// Whether the kernel, and whatever confines this process, permits userfaultfd and io_uring. Found
// out by trying, in a short-lived process that the application does not notice: a seccomp filter
// may kill whoever asks. docs/decisions/traps.md says why and how.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

// What may be refused, each on its own.
enum class Request {
  userfaultfd,            // the system call, for faults inside system calls too
  userfaultfd_device,     // the same through /dev/userfaultfd
  userfaultfd_user_mode,  // the system call, for faults in user mode only
  io_uring,
};
inline constexpr std::size_t request_count = 4;

struct Answer {
  enum class Verdict {
    not_tried,  // the process that tries could not be started: `error`; or it fell silent earlier
    permitted,
    refused,   // with `error`
    too_old,   // permitted, but the kernel lacks what the library needs of it
    killed,    // whoever asks dies
    unending,  // whoever asks waits longer than the limit
  };
  Verdict verdict = Verdict::not_tried;
  int error = 0;

  explicit operator bool() const { return verdict == Verdict::permitted; }
};

// A phrase that follows the name of what was asked for: "is refused (Operation not permitted)".
std::string to_string(const Answer& answer);

struct Permissions {
  std::array<Answer, request_count> answers;
  std::uint64_t userfaultfd_features = 0;  // that the kernel offers, when any form is permitted

  const Answer& operator[](Request request) const {
    return answers[static_cast<std::size_t>(request)];
  }
  // The best that is permitted.
  UffdAccess userfaultfd() const;
};

// Tried at the first call, and remembered. Any thread may call. Throws std::system_error: no memory
// to try with.
const Permissions& permissions();

// Tries now; the calling thread waits meanwhile. Changes nothing in this process. Throws as above.
Permissions try_permissions();

}  // namespace wherry::impl
