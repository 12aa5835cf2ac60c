// Faults on pages that stay where they are, in the page table that the host and coherent devices
// share: samples of accesses to mapped pages (faults/usage_sampler.h), and pages that have just
// come. The fault service asks for those of a live run, and a replay for those of a recorded one.
#pragma once

#include <optional>

#include "faults/access_samples.h"
#include "faults/fault.h"
#include "migration/locked_block.h"
#include "policy/advice_rules.h"

namespace wherry::impl {

// The pool that holds the page, if that belongs to a processor that shares the faulting one's page
// table with others; nothing: another case, or a write to a page that has copies.
std::optional<Processor> near_owner(const Fault& fault, const LockedBlock& block,
                                    const FaultFacts& facts) REQUIRES(block.state.lock);
// The decision for a fault on a page that stays in the owner's pool and only has to be mapped.
// Notes a sample, once for each fault. Nothing: the policy decides. Requires: the fault has the
// number of its allocation.
std::optional<Decision> decide_in_place(Fault& fault, const LockedBlock& block,
                                        const FaultFacts& facts, Processor owner,
                                        AccessSamples& samples) REQUIRES(block.state.lock);

}  // namespace wherry::impl
