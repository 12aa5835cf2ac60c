#include "runtime/audience_registry.h"

#include <span>

#include "base/log.h"
#include "os/process/poll.h"

namespace wherry::impl {

std::optional<unsigned> AudienceRegistry::begin(int device) {
  const LockGuard guard(lock_);
  for (unsigned audience = Audiences::first_other; audience < Audiences::end; ++audience) {
    if (in_use_.test(audience)) continue;
    in_use_.set(audience);
    parts_.audiences.begin(audience, Processor::device(device));
    return audience;
  }
  return std::nullopt;
}

void AudienceRegistry::end(unsigned audience) {
  const LockGuard guard(lock_);
  in_use_.reset(audience);
}

void AudienceRegistry::admit(unsigned audience, int device) {
  parts_.audiences.admit(audience, Processor::device(device));
}

void AudienceRegistry::exclude(unsigned audience, int device) {
  const Processor p = Processor::device(device);
  // First, so that no fault handler enters a mapping after those that there are were taken back.
  parts_.audiences.exclude(audience, p);
  // A process that has ended has no mappings, and the next one starts without any.
  const auto has_ended = [&] {
    pollfd ended{parts_.devices.process(device)->pidfd(), POLLIN, 0};
    return poll_descriptors(std::span(&ended, 1), 0) > 0;
  };
  // The last look is for a process that was ending during the first one.
  if (!has_ended() && !parts_.effects.take_back(parts_.address_space.pages_for(audience), p) &&
      !has_ended())
    log_line("device {} still has mappings of memory that it may not access any more", device);
}

}  // namespace wherry::impl
