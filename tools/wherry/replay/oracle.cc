#include "replay/oracle.h"

#include <algorithm>
#include <bit>

namespace wherry::replay {
namespace {

// Looks ahead at most this many accesses of a block. A place that is good for so long is good
// enough, and a longer search for a contended block would be repeated at each of its faults.
constexpr std::uint32_t looked_at_max = 4096;

}  // namespace

Oracle::Oracle(const Timeline& timeline, const CostModel& costs)
    : timeline_(timeline), costs_(costs), begins_(timeline.blocks.size() + 1) {
  const auto for_each_touch = [&](const auto& visit) {
    for (std::uint32_t i = 0; i < timeline.size(); ++i)
      if (timeline.nodes[i].kind == Node::Kind::touch) visit(timeline.nodes[i].what, i);
  };
  for_each_touch([&](std::uint32_t block, std::uint32_t) { ++begins_[block + 1]; });
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  touches_.resize(timeline.touches);
  std::vector<std::uint32_t> next(begins_);
  for_each_touch([&](std::uint32_t block, std::uint32_t node) { touches_[next[block]++] = node; });
}

Oracle::Future Oracle::look_ahead(const impl::FaultFacts& facts) const {
  const std::uint32_t block = timeline_.nodes[current_].what;
  const auto begin = touches_.begin() + begins_[block];
  const auto end = touches_.begin() + begins_[block + 1];
  const auto first = std::lower_bound(begin, end, current_);
  const auto last = first + std::min<std::ptrdiff_t>(end - first, looked_at_max);
  Future future;
  future.wanted = impl::PageMask::of({facts.page, 1});
  int holder =
      facts.residents == 0 ? facts.faulting_processor.index : std::countr_zero(facts.residents);
  for (auto at = first; at != last; ++at) {
    const Node& node = timeline_.nodes[*at];
    if (node.page == facts.page) {
      future.moves += node.processor != holder;
      holder = node.processor;
      ++future.touches[node.processor];
      continue;
    }
    const impl::PageMask page = impl::PageMask::of({node.page, 1});
    if (node.processor != facts.faulting_processor.index)
      future.barred |= page - future.wanted;
    else
      future.wanted |= page - future.barred;
  }
  return future;
}

impl::Processor Oracle::cheapest_place(const impl::FaultFacts& facts, const Future& future,
                                       unsigned pages) const {
  const double share = 1.0 / pages;
  const double extra = std::max(0.0, costs_.read_remote_page_ns - costs_.read_local_page_ns);
  const auto moves_to = [&](int p) {
    return (p == 0 ? costs_.migrate_to_host : costs_.migrate_to_device).of(pages) * share;
  };
  // The first choice: the page always moves to the faulting processor.
  double least = future.moves * (moves_to(0) + moves_to(1)) / 2;
  impl::Processor place = facts.faulting_processor;
  // The other choices: the page stays at one processor, and the others map it remotely.
  for (int p = 0; p < facts.processors; ++p) {
    const bool is_there = facts.residents == 0 || (facts.residents & impl::Processor{p}.bit()) != 0;
    double cost = is_there ? 0 : moves_to(p);
    for (int other = 0; other < facts.processors; ++other) {
      const unsigned touches = future.touches[static_cast<std::size_t>(other)];
      if (other == p || touches == 0) continue;
      cost += extra * touches;
      // Processors with a common page table need no remote mapping.
      const impl::ProcessorMask both = impl::Processor{p}.bit() | impl::Processor{other}.bit();
      if ((both & ~facts.sharing()) != 0) cost += costs_.remote_map.of(pages) * share;
    }
    if (cost >= least) continue;
    least = cost;
    place = {p};
  }
  return place;
}

impl::Opinion Oracle::on_fault(const impl::FaultFacts& facts,
                               std::unique_ptr<impl::BlockHistory>&) const {
  const Future future = look_ahead(facts);
  impl::Opinion opinion;
  // The stretch from the first to the last page that this processor needs, without pages that would
  // only have to move away again.
  const impl::PageMask may =
      (impl::PageMask::of(facts.stretch) - future.barred) | impl::PageMask::of({facts.page, 1});
  impl::PageRun run = may.run_around(facts.page);
  const auto needed = [&](unsigned page) { return future.wanted.test(page); };
  while (!needed(run.first)) run = {run.first + 1, run.count - 1};
  while (!needed(run.end() - 1)) --run.count;
  opinion.region = run;
  opinion.destination = cheapest_place(facts, future, run.count);
  return opinion;
}

}  // namespace wherry::replay
