#include "migration/creation.h"

namespace wherry::impl {

OpStatus create_pages(PageEngine& engine, Evictor& evictor, BlockDirectory& blocks,
                      std::uint64_t number, PageRun run, Processor p, Reservation& reservation) {
  Block& block = blocks.at(number);
  std::uint64_t wanted = 0;
  {
    const LockGuard guard(block.lock);
    const PageMask absent = PageMask::of(run) & block.absent();
    wanted = absent.count();
    if (wanted == 0) return OpStatus::ok;
    if (!(absent & block.in_flight()).none()) return OpStatus::incomplete;
    if (reservation.try_grow(engine.at(p).capacity, wanted)) {
      OpStatus status = OpStatus::ok;
      for (const PageRun part : runs_of(absent)) {
        status = engine.populate(block, part, p, reservation, Entry::at_home, MoveCause::creation)
                     .status;
        // A process that is gone has no page table; a new one finds the pages in the pool.
        if (status == OpStatus::process_gone)
          status =
              engine.populate(block, part, p, reservation, Entry::none, MoveCause::creation).status;
        if (status != OpStatus::ok) break;
      }
      if (status == OpStatus::ok || status == OpStatus::no_memory) return status;
    }
  }
  const OpStatus made = evictor.make_room({p, wanted, span_of(number, run).first}, reservation);
  return made == OpStatus::absent || made == OpStatus::no_memory ? OpStatus::no_memory
                                                                 : OpStatus::incomplete;
}

std::optional<Processor> find_room(PageEngine& engine, std::uint64_t pages,
                                   Reservation& reservation) {
  for (int i = 0; i < engine.processors(); ++i)
    if (reservation.try_grow(engine.at(Processor{i}).capacity, pages)) return Processor{i};
  return std::nullopt;
}

}  // namespace wherry::impl
