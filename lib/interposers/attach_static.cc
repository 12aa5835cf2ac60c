// Part of libwherry.a: the interposers are members of the same archive.
#include "interposers/attached.h"

void wherry::impl::pass_to_interposers(const InterposerHooks& hooks) {
  ::wherry_interposers_attach(&hooks);
}

const void* wherry::impl::address_in_interposers() {
  return reinterpret_cast<const void*>(&::wherry_interposers_attach);
}

void wherry::impl::pass_to_interposers(const SystemCallHooks& hooks) {
  ::wherry_interposers_attach_system_calls(&hooks);
}
