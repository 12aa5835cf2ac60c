#include "os/process/spin.h"

#include <utility>

#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// A longer yield means that another thread computes on this CPU. A shorter one does not: the first
// yield after a sleep takes 6 to 12 us, and the thread that ran may be the one that answers.
constexpr std::uint64_t yielded_ns = 1'000'000;

}  // namespace

bool Spin::goes_on() {
  yield_cpu();
  const std::uint64_t before = std::exchange(looked_ns_, now_ns());
  return looked_ns_ < end_ns_ && looked_ns_ - before < yielded_ns;
}

}  // namespace wherry::impl
