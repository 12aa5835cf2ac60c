#include "runtime/audience_registry.h"

#include <bit>
#include <span>

#include "base/log.h"
#include "os/process/poll.h"

namespace wherry::impl {

AudienceRegistry::AudienceRegistry(const Parts& parts) : parts_(parts) {
  for (ProcessorMask left = parts.coherent; left != 0; left &= left - 1) {
    const Processor device{std::countr_zero(left)};
    coherent_admitted_[Audiences::of_device(device)] = device.bit();
    parts.audiences.admit(Audiences::of_device(device), sharing(device));
  }
}

ProcessorMask AudienceRegistry::sharing(Processor p) const {
  return (parts_.coherent & p.bit()) != 0 ? parts_.coherent | Processor::host().bit() : p.bit();
}

std::optional<unsigned> AudienceRegistry::begin(int device) {
  const LockGuard guard(lock_);
  for (unsigned audience = Audiences::first_other; audience < Audiences::end; ++audience) {
    if (in_use_.test(audience)) continue;
    in_use_.set(audience);
    const Processor p = Processor::device(device);
    coherent_admitted_[audience] = p.bit() & parts_.coherent;
    parts_.audiences.begin(audience, sharing(p));
    return audience;
  }
  return std::nullopt;
}

void AudienceRegistry::end(unsigned audience) {
  const LockGuard guard(lock_);
  in_use_.reset(audience);
}

void AudienceRegistry::admit(unsigned audience, int device) {
  const Processor p = Processor::device(device);
  const LockGuard guard(lock_);
  coherent_admitted_[audience] |= p.bit() & parts_.coherent;
  parts_.audiences.admit(audience, sharing(p));
}

void AudienceRegistry::exclude(unsigned audience, int device) {
  const Processor p = Processor::device(device);
  const bool is_coherent = (parts_.coherent & p.bit()) != 0;
  if (is_coherent) {
    const LockGuard guard(lock_);
    coherent_admitted_[audience] &= ~p.bit();
    if (coherent_admitted_[audience] != 0) return;
  }
  // Excluded first, so that no fault handler enters a mapping after take_back() removed all.
  parts_.audiences.exclude(audience, sharing(p));
  // A process that has ended has no mappings, and the next one starts without any.
  const auto has_ended = [&] {
    if (is_coherent) return false;
    pollfd ended{parts_.devices.process(device)->pidfd(), POLLIN, 0};
    return poll_descriptors(std::span(&ended, 1), 0) > 0;
  };
  const Processor table = is_coherent ? Processor::host() : p;
  // The second has_ended() is for a process that was ending during the first.
  if (!has_ended() && !parts_.effects.take_back(parts_.address_space.pages_for(audience), table) &&
      !has_ended())
    log_line("device {} still has mappings of memory that it may not access any more", device);
}

}  // namespace wherry::impl
