// Describes the trace's machine, which need not be this one, to a replayed policy.
#pragma once

#include "machine/policy_machine.h"
#include "replay/simulated_memory.h"
#include "trace/trace_chunks.h"

namespace wherry::replay {

impl::PolicyMachine policy_machine_of(const impl::TraceMachine& machine,
                                      const MachineSetting& setting);

}  // namespace wherry::replay
