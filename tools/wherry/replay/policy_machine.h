// What a policy of a replay is told of the machine: that of the trace, which need not be this one.
#pragma once

#include "api/policy_machine.h"
#include "events/trace_chunks.h"
#include "replay/page_books.h"

namespace wherry::replay {

impl::PolicyMachine policy_machine_of(const impl::TraceMachine& machine,
                                      const MachineSetting& setting);

}  // namespace wherry::replay
