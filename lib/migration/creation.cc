#include "migration/creation.h"

namespace wherry::impl {

OpStatus create_pages(PageEngine& engine, Evictor& evictor, BlockDirectory& blocks,
                      BlockIndex index, PageRun run, Processor p, Reservation& reservation) {
  std::uint64_t wanted = 0;
  {
    const LockedBlock block(index, blocks.at(index));
    const PageMask absent = PageMask::of(run) & block.state.absent();
    wanted = absent.count();
    if (wanted == 0) return OpStatus::ok;
    if (!(absent & block.state.in_flight()).none()) return OpStatus::incomplete;
    if (reservation.try_grow(engine.at(p).capacity, wanted)) {
      OpStatus status = OpStatus::ok;
      for (const PageRun part : runs_of(absent)) {
        status = engine.populate(block, part, p, reservation, Entry::at_home, MoveCause::creation)
                     .status;
        // A process that has ended has no page table. Its successor finds the pages in the pool.
        if (status == OpStatus::process_gone)
          status =
              engine.populate(block, part, p, reservation, Entry::none, MoveCause::creation).status;
        if (status != OpStatus::ok) break;
      }
      if (status == OpStatus::ok || status == OpStatus::no_memory) return status;
    }
  }
  const OpStatus made = evictor.reserve({p, wanted, span_of(index, run).first}, reservation);
  return made == OpStatus::ok || made == OpStatus::incomplete ? OpStatus::incomplete
                                                              : OpStatus::no_memory;
}

std::optional<Processor> reserve_anywhere(PageEngine& engine, std::uint64_t pages,
                                          Reservation& reservation) {
  for (int i = 0; i < engine.processors(); ++i)
    if (reservation.try_grow(engine.at(Processor{i}).capacity, pages)) return Processor{i};
  return std::nullopt;
}

}  // namespace wherry::impl
