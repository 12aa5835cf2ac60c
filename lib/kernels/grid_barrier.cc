#include "kernels/grid_barrier.h"

#include <limits>

#include "os/process/futex.h"
#include "os/process/spin.h"

namespace wherry::impl {
namespace {

constexpr std::uint32_t one_here = 1u << 16;
constexpr std::uint32_t live_mask = one_here - 1;
constexpr int sleep_limit_ms = 1000;

// Whether all blocks that have not ended are here.
bool is_complete(std::uint32_t counts) {
  return counts / one_here == (counts & live_mask);
}

}  // namespace

GridBarrier*& grid_barrier_of_this_thread() {
  thread_local GridBarrier* barrier = nullptr;
  return barrier;
}

void GridBarrier::release() {
  round_.fetch_add(1, std::memory_order_release);
  futex_wake(round_, std::numeric_limits<int>::max());
}

void GridBarrier::wait() {
  // The round cannot end before this block is here.
  const std::uint32_t round = round_.load(std::memory_order_relaxed);
  std::uint32_t before = counts_.load(std::memory_order_relaxed);
  std::uint32_t after = 0;
  do {
    after = before + one_here;
    if (is_complete(after)) after &= live_mask;
  } while (!counts_.compare_exchange_weak(before, after, std::memory_order_acq_rel));
  if (after < one_here) return release();
  // Acquire: pairs with release(), so the caller sees what the other blocks wrote.
  const auto is_over = [&] { return round_.load(std::memory_order_acquire) != round; };
  for (Spin spin(usual_spin_ns); !is_over();) {
    if (spin.goes_on()) continue;
    while (!is_over()) futex_wait(round_, round, sleep_limit_ms);
  }
}

void GridBarrier::leave() {
  std::uint32_t before = counts_.load(std::memory_order_relaxed);
  std::uint32_t after = 0;
  bool is_last = false;
  do {
    after = before - 1;
    is_last = after >= one_here && is_complete(after);
    if (is_last) after &= live_mask;
  } while (!counts_.compare_exchange_weak(before, after, std::memory_order_acq_rel));
  if (is_last) release();
}

}  // namespace wherry::impl
