#include "faults/faults_in_place.h"

namespace wherry::impl {

std::optional<Processor> near_owner(const Fault& fault, const LockedBlock& block,
                                    const FaultFacts& facts) {
  const ProcessorMask near = facts.residents & facts.sharing();
  if (!facts.table.is_host() || facts.coherent == 0 || near == 0) return std::nullopt;
  // Not all sources of faults tell a write to a protected page from one to a page without an entry.
  if (facts.write && block.state.at(facts.table).write_protected.test(facts.page))
    return std::nullopt;
  return closest_of(near, fault.processor);
}

std::optional<Decision> decide_in_place(Fault& fault, const LockedBlock& block,
                                        const FaultFacts& facts, Processor owner,
                                        AccessSamples& samples) {
  if (facts.mapped.test(facts.page)) {
    if (!fault.sample)
      fault.sample = samples.note(block, fault.processor, owner, *fault.allocation_id)
                         ? Fault::Sample::moves
                         : Fault::Sample::stays;
    if (fault.sample == Fault::Sample::moves) return std::nullopt;
    return Decision{.destination = owner, .region = {facts.page, 1}, .reason = Reason::resident};
  }
  // A block that was evicted comes back only into free space. Else the devices would take turns to
  // evict blocks that they all use; samples decide whether it is worth another block's place.
  const bool is_evicted = (block.state.evicted_from & fault.processor.bit()) != 0;
  const bool has_space = facts.free_pages >= facts.stretch.count;
  // Its block has just come here, and this thread was faster than the change of the view. If the
  // policy were asked, several users would take the block from each other all the time.
  const bool arrives = !owner.is_host() || block.state.view(fault.table, facts.page) != owner;
  if (is_evicted ? has_space : !arrives) return std::nullopt;
  return Decision{.destination = owner, .region = facts.stretch, .reason = Reason::resident};
}

}  // namespace wherry::impl
