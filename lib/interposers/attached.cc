#include "interposers/attached.h"

#include <atomic>

#include "io/preparation.h"

namespace {

constinit std::atomic<const wherry::impl::InterposerHooks*> attached_hooks = nullptr;

}  // namespace

const wherry::impl::InterposerHooks* wherry::interposers::attached() {
  return attached_hooks.load(std::memory_order_acquire);
}

extern "C" [[gnu::visibility("default")]] void wherry_interposers_attach(
    const wherry::impl::InterposerHooks* hooks) {
  attached_hooks.store(hooks, std::memory_order_release);
}

extern "C" [[gnu::visibility("default")]] void wherry_interposers_attach_system_calls(
    const wherry::impl::SystemCallHooks* hooks) {
  wherry::io::attach(hooks, /*prepares=*/false);
}
