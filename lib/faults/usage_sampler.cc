#include "faults/usage_sampler.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// How much CPU time the samples may take at once after a rest.
constexpr std::uint64_t most_at_once_ns = 40'000'000;

}  // namespace

UsageSampler::UsageSampler(const Parts& parts, const Limits& limits)
    : parts_(parts), always_(limits.always), allowance_(limits.budget_per_mille, most_at_once_ns) {}

void UsageSampler::start() {
  const SignalBlock no_signals;
  thread_ = std::thread([this] { work(); });
}

UsageSampler::~UsageSampler() {
  stopping_ = true;
  notifier_.notify();
  if (thread_.joinable()) thread_.join();
}

void UsageSampler::work() {
  name_this_thread("wherry-usage");
  thread_gets_no_signals();
  AccessSamples& samples = parts_.samples;
  SamplePace pace(ViewChanger::runs_max, always_);
  std::uint64_t earliest_ns = 0;
  std::uint64_t charged_ns = thread_cpu_ns() + samples.cost_ns();
  for (std::uint32_t seen = notifier_.seen(); !stopping_; notifier_.wait(seen, pace.pause_ms())) {
    const std::uint64_t cost_ns = thread_cpu_ns() + samples.cost_ns();
    const std::uint64_t used_ns = process_cpu_ns();
    earliest_ns = allowance_.use(cost_ns - charged_ns, used_ns);
    charged_ns = cost_ns;
    pace.begin_round(samples.surprises(), parts_.attached.phases());
    if (used_ns >= earliest_ns && may_gain()) take_samples(pace.blocks());
  }
}

bool UsageSampler::may_gain() const {
  if (always_ || parts_.attached.any()) return true;
  for (ProcessorMask left = parts_.engine.coherent(); left != 0; left &= left - 1)
    if (parts_.engine.at(Processor{std::countr_zero(left)}).capacity.reserved() != 0) return true;
  return false;
}

void UsageSampler::take_samples(std::size_t most) {
  std::array<PageSpan, ViewChanger::runs_max> spans;
  std::size_t count = 0;
  const LockGuard gate(parts_.pins.lock);
  const auto add = [&](BlockIndex index) REQUIRES(parts_.pins.lock) {
    const auto page = static_cast<unsigned>(random_() % pages_per_block);
    if (const auto span = begin_sample(index, page)) spans[count++] = *span;
  };
  while (count < most / 2) {
    const auto suspect = parts_.samples.take_suspect();
    if (!suspect) break;
    add(*suspect);
  }
  const BlockIndex end{parts_.blocks.size()};
  bool wrapped = false;
  // Looks at more blocks than it samples, because most may be elsewhere or absent.
  for (std::size_t looks = 0; count < most && looks < 8 * most; ++looks) {
    const BlockIndex index = parts_.blocks.next_used(next_, end);
    if (index.value == end.value) {
      if (std::exchange(wrapped, true)) break;
      next_ = {0};
      continue;
    }
    next_ = index.next();
    add(index);
  }
  // A failure only means that fewer accesses are seen.
  if (count != 0) (void)parts_.host.forget_entries(std::span(spans).first(count));
}

void UsageSampler::sample(PageIndex page) {
  const LockGuard gate(parts_.pins.lock);
  if (const auto span = begin_sample(block_of(page), page_in_block(page)))
    (void)parts_.host.forget_entries(std::span(&*span, 1));
}

std::optional<PageSpan> UsageSampler::begin_sample(BlockIndex index, unsigned page) {
  // Pinned pages cannot be in the wrong pool.
  if (!parts_.pins.pinned(index).none()) return std::nullopt;
  Block* const state = parts_.blocks.find(index);
  // A block whose lock is held is in use, so no sample has to show that.
  if (state == nullptr || !state->lock.try_lock()) return std::nullopt;
  const LockedBlock block(index, *state, std::adopt_lock);
  const auto run = parts_.engine.entries().begin_sample(block, Processor::host(), page);
  if (!run) return std::nullopt;
  return block.span_of(*run);
}

}  // namespace wherry::impl
