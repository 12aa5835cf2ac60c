#include "streams/failure_text.h"

#include <fmt/core.h>
#include <string.h>

namespace wherry::impl {

std::string describe_failure(int ordinal, pid_t pid, const DeviceFailure& failure,
                             std::uintptr_t kernel) {
  const std::string device = fmt::format("device {} (process {})", ordinal, pid);
  const std::string subject =
      kernel == 0 ? device : fmt::format("{}: kernel {}", device, describe_code_address(kernel));
  switch (failure.kind) {
    case DeviceFailure::Kind::illegal_address:
      return failure.what.empty()
                 ? fmt::format("{} touched {:#x}, which the device cannot see", subject,
                               failure.address)
                 : fmt::format("{} wrote to {:#x}, {}", subject, failure.address, failure.what);
    case DeviceFailure::Kind::signal: {
      const char* description = ::sigdescr_np(failure.signal);
      return fmt::format("{} ended by signal {} ({})", subject, failure.signal,
                         description != nullptr ? description : "unknown");
    }
    case DeviceFailure::Kind::exception:
      return fmt::format("{} threw an exception: {}", subject, failure.what);
    case DeviceFailure::Kind::assertion:
    case DeviceFailure::Kind::failed:
      return fmt::format("{}: {}", device, failure.what);
    case DeviceFailure::Kind::exited:
      return fmt::format("{} called exit({})", subject, failure.signal);
    case DeviceFailure::Kind::lost:
      return fmt::format("{} ended without a report: killed, or out of memory", subject);
  }
  return subject;
}

}  // namespace wherry::impl
