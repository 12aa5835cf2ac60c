#include "os/process/interposer_hooks.h"

#include "os/memory/memory_locks.h"
#include "os/signals/signal_chain.h"

namespace wherry::impl {
namespace {

constinit const InterposerHooks hooks{
    .signals_are_taken = signals_are_taken,
    .is_remembered = is_remembered,
    .exchange_action = exchange_action,
    .mask_for_kernel = mask_for_kernel,
    .mask_for_application = mask_for_application,
    .mask_to_unblock = mask_to_unblock,
    .mask_to_await = mask_to_await,
    .restore_signal = restore_signal,
    .lock_all = lock_all_but_the_librarys,
};

}  // namespace

void attach_interposers() {
  pass_to_interposers(hooks);
}

}  // namespace wherry::impl
