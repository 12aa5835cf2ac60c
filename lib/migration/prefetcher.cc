#include "migration/prefetcher.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace wherry::impl {
namespace {

// is_done() looks at requests of up to 128 MiB, which takes some ten microseconds.
constexpr std::uint64_t looked_at_max = 64 * pages_per_block;

}  // namespace

// The tasks of a request.
class Prefetcher::Job final : public Copiers::Job {
 public:
  Job(const PrefetchParts& parts, const PrefetchLimits& limits, PrefetchRequest request,
      std::function<void()> done)
      : parts_(parts), limits_(limits), request_(std::move(request)), done_(std::move(done)) {
    for (PrefetchRequest::Range& range : request_.ranges) {
      const auto allocation = parts_.address_space.find(range.pages.offset());
      range.allocation = allocation ? allocation->id : 0;
    }
    std::erase_if(request_.ranges, [](const auto& range) { return range.allocation == 0; });
  }

  std::unique_ptr<Copiers::Task> next_task() override;
  bool has_more() const override { return range_ < request_.ranges.size(); }
  void finish(Copiers::Task& task) override {
    const auto& prefetch = static_cast<PrefetchTask&>(task);
    if (prefetch.is_stuck()) full_ |= prefetch.to().bit();
    open_.erase(std::ranges::find(open_, prefetch.block()));
  }
  void done() override { done_(); }

 private:
  // In which order the blocks of these pages are brought. Requires: not empty.
  StripedOrder order_of(PageSpan pages, Processor to) const;
  void end_range() {
    ++range_;
    order_.reset();
  }

  const PrefetchParts& parts_;
  const PrefetchLimits& limits_;
  PrefetchRequest request_;
  const std::function<void()> done_;
  std::size_t range_ = 0;              // of the next task
  std::optional<StripedOrder> order_;  // blocks left in that range; nullopt: not begun
  std::vector<BlockIndex> open_;       // blocks of the tasks that were taken and are not done
  ProcessorMask full_ = 0;             // full pools: nothing more is prefetched there
};

std::unique_ptr<Copiers::Task> Prefetcher::Job::next_task() {
  using Kind = PrefetchRequest::Kind;
  while (range_ < request_.ranges.size()) {
    PrefetchRequest::Range range = request_.ranges[range_];
    const Processor to = range.to.processor();
    const PageSpan all = request_.kind == Kind::discard ? range.whole : range.pages;
    const bool is_full = request_.kind == Kind::prefetch && (full_ & to.bit()) != 0;
    if (is_full || all.empty()) {
      end_range();
      continue;
    }
    if (!order_) order_ = order_of(all, to);
    const BlockIndex block = order_->front();
    // Ranges may overlap: the earlier task of the block must be done first.
    if (std::ranges::find(open_, block) != open_.end()) return nullptr;
    order_->pop();
    if (order_->empty()) end_range();
    range.pages = intersect(all, block_span(block));
    range.whole = intersect(range.whole, block_span(block));
    if (range.pages.empty()) continue;
    open_.push_back(block);
    return std::make_unique<PrefetchTask>(parts_, limits_, request_.kind, range, block,
                                          request_.epoch);
  }
  return nullptr;
}

// A range that does not fit is brought without stripes, in order, so that its first blocks come.
StripedOrder Prefetcher::Job::order_of(PageSpan pages, Processor to) const {
  const bool fits = pages.count <= parts_.engine.at(to).capacity.pages();
  return StripedOrder(fits ? limits_.stripes : Stripes(), block_of(pages.first),
                      block_of(pages.end() - 1).next());
}

void Prefetcher::submit(PrefetchRequest request, std::function<void()> done) {
  parts_.copiers.submit(
      std::make_shared<Job>(parts_, limits_, std::move(request), std::move(done)));
}

bool Prefetcher::is_done(const PrefetchRequest& request) const {
  // With advice, more processors may have to map the pages.
  if (request.kind != PrefetchRequest::Kind::prefetch || parts_.effects.advises()) return false;
  std::uint64_t pages = 0;
  for (const PrefetchRequest::Range& range : request.ranges) {
    pages += range.pages.count;
    if (limits_.host_has_nodes && range.to.kind == Location::Kind::host_node) return false;
  }
  return pages <= looked_at_max &&
         std::ranges::all_of(request.ranges, [&](const PrefetchRequest::Range& range) {
           return is_done(range.pages, range.to.processor());
         });
}

bool Prefetcher::is_done(PageSpan pages, Processor to) const {
  for (BlockIndex index = block_of(pages.first); block_span(index).first < pages.end();
       index = index.next()) {
    const PageRun run = run_in_block(index, pages);
    Block& state = parts_.blocks.at(index);
    if (!state.lock.try_lock()) return false;
    const LockedBlock block(index, state, std::adopt_lock);
    const Processor table = parts_.engine.table_of(to);
    const PageMask ready = block.state.at(to).resident & block.state.mapped_from(table, to);
    const PageMask moving = block.state.in_flight() | block.state.switching(table);
    if (!(PageMask::of(run) - (ready - moving)).none()) return false;
  }
  return true;
}

}  // namespace wherry::impl
