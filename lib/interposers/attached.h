// The hooks of the library, once it has attached itself to the interposers.
#pragma once

#include "memory/system_calls.h"
#include "os/process/interposer_hooks.h"

// Attaches the library: the interposers call its hooks from now on. `hooks` must live as long as
// the process.
extern "C" void wherry_interposers_attach(const wherry::impl::InterposerHooks* hooks);
// The same for the wrappers of system calls (lib/io).
extern "C" void wherry_interposers_attach_system_calls(const wherry::impl::SystemCallHooks* hooks);

namespace wherry::interposers {

// Returns null before the library has attached itself; once attached, it stays so. Callable in
// signal handlers.
const impl::InterposerHooks* attached();

}  // namespace wherry::interposers
