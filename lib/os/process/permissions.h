// Whether Linux, and any sandbox around this process, permits userfaultfd and io_uring. The library
// tries them in a short-lived process, the probing process, which the application does not notice:
// a seccomp filter may kill the process that makes the call. docs/decisions/traps.md explains why
// and how.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

// The requests; each may be refused on its own.
enum class Request {
  userfaultfd,            // the system call, with faults taken inside system calls
  userfaultfd_device,     // through /dev/userfaultfd, likewise with faults inside system calls
  userfaultfd_user_mode,  // the system call, with faults taken in user mode only
  io_uring,
};
inline constexpr std::size_t request_count = 4;

struct Answer {
  enum class Verdict {
    not_tried,  // no probing process could start (`error`), or an earlier request did not return
    permitted,
    refused,   // with `error`
    too_old,   // this Linux lacks a feature that the library needs
    killed,    // the calling process is killed
    unending,  // the call does not return within the limit
  };
  Verdict verdict = Verdict::not_tried;
  int error = 0;

  explicit operator bool() const { return verdict == Verdict::permitted; }
};

// A phrase that follows the name of the request: "is refused (Operation not permitted)".
std::string to_string(const Answer& answer);

struct Permissions {
  std::array<Answer, request_count> answers;
  // features that Linux offers if any form is permitted
  std::uint64_t userfaultfd_features = 0;

  const Answer& operator[](Request request) const {
    return answers[static_cast<std::size_t>(request)];
  }
  // Returns the best form of userfaultfd that is permitted, nullopt if none is.
  std::optional<UffdAccess> userfaultfd() const;
};

// Tries at the first call and remembers the result. Any thread. Throws std::system_error if there
// is no memory to try with.
const Permissions& permissions();

// Tries now, while the calling thread waits. Changes nothing in this process. Throws like
// permissions().
Permissions try_permissions();

}  // namespace wherry::impl
