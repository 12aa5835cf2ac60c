// Part of libwherry.so: the interposers are in libwherry_interposers.so, which the dynamic loader
// places before libwherry.so.
#include <cerrno>

#include "memory/system_calls.h"
#include "os/files/fd.h"
#include "os/process/interposer_hooks.h"

// Weak, because libwherry.so is not linked with that library (lib/interposers/meson.build).
extern "C" [[gnu::weak]] void wherry_interposers_attach(const wherry::impl::InterposerHooks* hooks);
extern "C" [[gnu::weak]] void wherry_interposers_attach_system_calls(
    const wherry::impl::SystemCallHooks* hooks);

void wherry::impl::pass_to_interposers(const InterposerHooks& hooks) {
  if (::wherry_interposers_attach == nullptr)
    throw_errno(ENOENT,
                "cannot load libwherry_interposers.so.0, which must be beside libwherry.so.0");
  ::wherry_interposers_attach(&hooks);
}

const void* wherry::impl::address_in_interposers() {
  return reinterpret_cast<const void*>(&::wherry_interposers_attach);
}

void wherry::impl::pass_to_interposers(const SystemCallHooks& hooks) {
  if (::wherry_interposers_attach_system_calls != nullptr)
    ::wherry_interposers_attach_system_calls(&hooks);
}
