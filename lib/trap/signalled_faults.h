// The faults of threads to which Linux sends a signal for an access to the arena: what their signal
// handler does, in the host and in a device process. A process has one arena, and a signal handler
// can reach it only through static variables, so these are functions.
//
// The handlers run in the accessing thread, which may be anywhere in the program and hold any lock
// of it. They allocate nothing, write nothing to the log, and take only locks whose holders no
// handler interrupts (base/signal_blocking.h).
#pragma once

#include <memory>

#include "os/files/fd.h"
#include "os/memory/page_table.h"
#include "os/signals/access_faults.h"
#include "pages/arena_layout.h"
#include "trap/fault_board.h"
#include "trap/trap.h"

namespace wherry::impl {

// ---- In the host

// From now on a thread of the host that gets `signal` for an access to a page of the layout
// resolves the fault itself, by the resolver that resolve_host_faults_by() has set. If there is
// none, or it cannot, the thread posts the fault and waits for the answer. Returns the source of
// the posted faults. `layout` must live until release_host_faults(). Called by the thread that
// starts the library. Throws std::system_error.
std::shared_ptr<const FaultSource> catch_host_faults(const ArenaLayout& layout,
                                                     AccessSignal signal);
// Requires: catch_host_faults() was called.
void resolve_host_faults_by(InThreadResolver resolver);
// Call it when there is no arena any more: accesses then end in the application's handler.
void release_host_faults();

// ---- In a device process

// From now on a thread of the process that accesses a page of the layout without permission posts
// the fault on the board and waits for the answer. `layout`, `board` and `page_table`, the
// process's own, live as long as the process. Called once, by the agent. Throws std::system_error.
void post_device_faults(const ArenaLayout& layout, FaultBoard& board, Fd notifier,
                        const PageTable& page_table);

}  // namespace wherry::impl
