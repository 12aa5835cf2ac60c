// The hooks of the library, after it has attached itself to the interposers.
#pragma once

#include "memory/system_calls.h"
#include "os/process/interposer_hooks.h"

// Attaches the library: the interposers call its hooks from now on. `hooks` must live as long as
// the process.
extern "C" void wherry_interposers_attach(const wherry::impl::InterposerHooks* hooks);
// Attaches the library to the wrappers of lib/io.
extern "C" void wherry_interposers_attach_system_calls(const wherry::impl::SystemCallHooks* hooks);

namespace wherry::interposers {

// Returns the hooks, or null before the library has attached itself, which it does once. Callable
// in signal handlers.
const impl::InterposerHooks* attached();

}  // namespace wherry::interposers
