#include "os/process/spin.h"

#include <utility>

#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// A yield takes less than a microsecond if no other thread runs meanwhile.
constexpr std::uint64_t yielded_ns = 5'000;

}  // namespace

bool Spin::goes_on() {
  yield_cpu();
  const std::uint64_t before = std::exchange(looked_ns_, now_ns());
  return looked_ns_ < end_ns_ && looked_ns_ - before < yielded_ns;
}

}  // namespace wherry::impl
