#include "kernels/block_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/grid_barrier.h"

__thread const wherryKernelBlock* wherryThisBlock = nullptr;
__thread wherryKernelThread* wherryThisThread = nullptr;

namespace wherry::impl {
namespace {

// Enough for printf and for some recursion. Pages that are never touched cost nothing.
constexpr std::size_t stack_bytes = std::size_t{128} << 10;
// Stacks begin at different places of their pages: else the same variable of all threads would
// compete for the same lines of the cache.
constexpr std::size_t stack_colors = 31;
constexpr std::size_t color_bytes = 128;
// Written at each stack's end, to detect overflows. Guard pages would cost two mappings for each
// thread, and Linux permits a process 65,530.
constexpr std::uint64_t stack_mark = 0x5745484652524559;

constexpr unsigned threads_max = 1024;  // of a block

constexpr unsigned lanes_of(unsigned count) {
  return count >= warp_lanes ? ~0u : (1u << count) - 1;
}

unsigned lane_bit(const wherryKernelThread& thread) {
  return 1u << thread.rank % warp_lanes;
}

std::size_t first_of_warp(const wherryKernelThread& thread) {
  return thread.rank - thread.rank % warp_lanes;
}

thread_local std::unique_ptr<BlockRunner> this_runner;

}  // namespace

void BlockRunner::List::push(Thread& thread) {
  thread.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &thread;
  last_ = &thread;
}

BlockRunner::Thread* BlockRunner::List::pop() {
  Thread* const thread = first_;
  if (thread != nullptr) first_ = thread->next;
  return thread;
}

void BlockRunner::List::append(List& other) {
  if (other.first_ == nullptr) return;
  (first_ == nullptr ? first_ : last_->next) = other.first_;
  last_ = other.last_;
  other.clear();
}

BlockRunner& BlockRunner::of_this_thread() {
  if (!this_runner) this_runner = std::make_unique<BlockRunner>();
  return *this_runner;
}

void BlockRunner::prepare(std::size_t threads) {
  if (threads <= threads_.size()) return;
  // One more stack, before the first, so that an overflow of the first is found, too.
  stacks_ = Mapping::zeroed((threads + 1) * stack_bytes);
  threads_ = std::vector<Thread>(threads);
  warps_ = std::vector<Warp>((threads + warp_lanes - 1) / warp_lanes);
  for (std::size_t i = 0; i < threads; ++i) {
    Thread& thread = threads_[i];
    thread.stack = stacks_.data() + (i + 1) * stack_bytes;
    std::memcpy(thread.stack, &stack_mark, sizeof stack_mark);
    thread.fiber.prepare(thread.stack, stack_bytes - i % stack_colors * color_bytes, begin_fiber);
  }
}

void BlockRunner::run(const wherryKernelBlock& block, void (*function)(void*), void* closure) {
  const unsigned(&size)[3] = block.blockDim;
  const unsigned threads = size[0] * size[1] * size[2];
  prepare(threads);
  block_ = &block;
  function_ = function;
  closure_ = closure;
  live_ = threads;
  waiting_ = count_ = at_tiles_ = 0;
  waits_for_grid_ = false;
  std::size_t rank = 0;
  for (unsigned z = 0; z < size[2]; ++z)
    for (unsigned y = 0; y < size[1]; ++y)
      for (unsigned x = 0; x < size[0]; ++x, ++rank) {
        Thread& thread = threads_[rank];
        thread.visible = {{x, y, z}, static_cast<unsigned>(rank), &block};
        thread.state = State::ready;
        ready_.push(thread);
      }
  for (unsigned first = 0; first < threads; first += warp_lanes) {
    const unsigned lanes = lanes_of(threads - first);
    Warp& warp = warps_[first / warp_lanes];
    warp.live = warp.running = lanes;
    warp.at_barrier = warp.asking = warp.tile_waiting = 0;
  }
  switch_from(worker_);
  wherryThisThread = nullptr;
}

// A fiber never ends: it runs the threads with one number of all blocks, one after the other, so
// that its stack is prepared once.
void BlockRunner::begin_fiber(boost::context::detail::transfer_t from) {
  Fiber::came_from(from);
  this_runner->run_threads();
}

void BlockRunner::run_threads() {
  for (;;) {
    Thread& thread = *current_;
    function_(closure_);
    end_of(thread);
    switch_from(thread.fiber);
  }
}

void BlockRunner::check_stack(const Thread& thread) const {
  std::uint64_t mark = 0;
  std::memcpy(&mark, thread.stack, sizeof mark);
  // A large frame may skip the mark. Its address shows the overflow when its thread waits.
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  if (mark == stack_mark && here > thread.stack) return;
  wherryKernelFailed(fmt::format("kernel {}: a thread needs more than the {} KiB of stack that "
                                 "threads of kernels with barriers have",
                                 block_->kernel, stack_bytes >> 10)
                         .c_str());
}

void BlockRunner::switch_from(Fiber& fiber) {
  Thread* const next = ready_.pop();
  if (next == nullptr && live_ != 0) report_deadlock();
  current_ = next;
  wherryThisThread = next == nullptr ? nullptr : &next->visible;
  fiber.switch_to(next == nullptr ? worker_ : next->fiber);
}

void BlockRunner::wait(Thread& thread, State state) {
  check_stack(thread);
  thread.state = state;
  Warp& warp = warp_of(thread);
  warp.running &= ~lane_bit(thread.visible);
  answer_active_lanes(warp, first_of_warp(thread.visible), nullptr);
  switch_from(thread.fiber);
}

void BlockRunner::make_ready(Thread& thread) {
  thread.state = State::ready;
  warp_of(thread).running |= lane_bit(thread.visible);
  ready_.push(thread);
}

void BlockRunner::end_of(Thread& thread) {
  check_stack(thread);
  thread.state = State::ended;
  if (--live_ != 0 && waiting_ == live_) release_block();
  Warp& warp = warp_of(thread);
  warp.live &= ~lane_bit(thread.visible);
  warp.running &= ~lane_bit(thread.visible);
  const std::size_t first = first_of_warp(thread.visible);
  for (unsigned lanes = warp.at_barrier; lanes != 0; lanes &= warp.at_barrier) {
    const unsigned mask = threads_[first + static_cast<unsigned>(std::countr_zero(lanes))].mask;
    if ((mask & warp.live & ~warp.at_barrier) == 0) release_warp(warp, first, mask, nullptr);
    lanes &= ~mask;
  }
  for (unsigned size = 2 * warp_lanes; at_tiles_ != 0 && size <= threads_max; size *= 2) {
    const std::size_t first_of_tile = thread.visible.rank / size * size;
    if (warps_[first_of_tile / warp_lanes].tile_size == size)
      release_tile(first_of_tile, size, nullptr);
  }
  answer_active_lanes(warp, first, nullptr);
}

unsigned BlockRunner::block_barrier(int predicate, int* all) {
  Thread& self = *current_;
  if (predicate != 0) ++count_;
  if (++waiting_ == live_) {
    release_block();
  } else {
    at_block_barrier_.push(self);
    wait(self, State::at_block_barrier);
  }
  if (all != nullptr) *all = last_all_ ? 1 : 0;
  return last_count_;
}

void BlockRunner::grid_barrier() {
  waits_for_grid_ = true;
  block_barrier(0, nullptr);
}

void BlockRunner::release_block() {
  if (std::exchange(waits_for_grid_, false)) grid_barrier_of_this_thread()->wait();
  last_count_ = count_;
  last_all_ = count_ == waiting_;
  waiting_ = count_ = 0;
  at_block_barrier_.for_each([this](Thread& thread) {
    thread.state = State::ready;
    warp_of(thread).running |= lane_bit(thread.visible);
  });
  ready_.append(at_block_barrier_);
}

void BlockRunner::warp_barrier(unsigned mask) {
  Thread& self = *current_;
  Warp& warp = warp_of(self);
  warp.at_barrier |= lane_bit(self.visible);
  if ((mask & warp.live & ~warp.at_barrier) == 0) {
    release_warp(warp, first_of_warp(self.visible), mask, &self);
  } else {
    self.mask = mask;
    wait(self, State::at_warp_barrier);
  }
}

void BlockRunner::release_warp(Warp& warp, std::size_t first, unsigned mask, const Thread* self) {
  for (unsigned lanes = mask & warp.at_barrier; lanes != 0; lanes &= lanes - 1) {
    Thread& lane = threads_[first + static_cast<unsigned>(std::countr_zero(lanes))];
    if (&lane != self) make_ready(lane);
  }
  warp.at_barrier &= ~mask;
  if (self != nullptr) warp.at_barrier &= ~lane_bit(self->visible);
}

void BlockRunner::tile_barrier(unsigned size) {
  Thread& self = *current_;
  const std::size_t first = self.visible.rank / size * size;
  Warp& first_warp = warps_[first / warp_lanes];
  first_warp.tile_size = size;
  ++first_warp.tile_waiting;
  ++at_tiles_;
  if (!release_tile(first, size, &self)) wait(self, State::at_tile_barrier);
}

bool BlockRunner::release_tile(std::size_t first, unsigned size, const Thread* self) {
  Warp& first_warp = warps_[first / warp_lanes];
  const unsigned(&block)[3] = block_->blockDim;
  const std::size_t end = std::min<std::size_t>(first + size, block[0] * block[1] * block[2]);
  unsigned live = 0;
  for (std::size_t at = first; at < end; at += warp_lanes)
    live += static_cast<unsigned>(std::popcount(warps_[at / warp_lanes].live));
  if (first_warp.tile_waiting != live) return false;
  at_tiles_ -= first_warp.tile_waiting;
  first_warp.tile_waiting = first_warp.tile_size = 0;
  for (std::size_t at = first; at < end; ++at)
    if (threads_[at].state == State::at_tile_barrier && &threads_[at] != self)
      make_ready(threads_[at]);
  return true;
}

const unsigned long long* BlockRunner::warp_exchange(unsigned mask, unsigned long long value) {
  Warp& warp = warp_of(*current_);
  warp.values[current_->visible.rank % warp_lanes] = value;
  warp_barrier(mask);
  return warp.values.data();
}

unsigned BlockRunner::active_lanes(const void* place) {
  Thread& self = *current_;
  Warp& warp = warp_of(self);
  self.place = place;
  self.mask = 0;
  warp.asking |= lane_bit(self.visible);
  warp.running &= ~lane_bit(self.visible);
  answer_active_lanes(warp, first_of_warp(self.visible), &self);
  if (self.mask == 0) wait(self, State::at_active_lanes);
  return self.mask;
}

void BlockRunner::answer_active_lanes(Warp& warp, std::size_t first, const Thread* self) {
  if (warp.running != 0 || warp.asking == 0) return;
  const void* const place =
      threads_[first + static_cast<unsigned>(std::countr_zero(warp.asking))].place;
  unsigned together = 0;
  for (unsigned lanes = warp.asking; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    if (threads_[first + lane].place == place) together |= 1u << lane;
  }
  warp.asking &= ~together;
  for (unsigned lanes = together; lanes != 0; lanes &= lanes - 1) {
    Thread& lane = threads_[first + static_cast<unsigned>(std::countr_zero(lanes))];
    lane.mask = together;
    if (&lane == self)
      warp.running |= lane_bit(lane.visible);
    else
      make_ready(lane);
  }
}

void BlockRunner::report_deadlock() {
  unsigned at_warp = 0, at_tile = 0;
  const unsigned threads = block_->blockDim[0] * block_->blockDim[1] * block_->blockDim[2];
  for (unsigned i = 0; i < threads; ++i) {
    at_warp += threads_[i].state == State::at_warp_barrier;
    at_tile += threads_[i].state == State::at_tile_barrier;
  }
  wherryKernelFailed(
      fmt::format("kernel {}: the threads of block ({},{},{}) wait for each other: {} at a barrier "
                  "of the block, {} at one of their warp, {} at one of a tile, {} have ended",
                  block_->kernel, block_->blockIdx[0], block_->blockIdx[1], block_->blockIdx[2],
                  waiting_, at_warp, at_tile, threads - live_)
          .c_str());
}

}  // namespace wherry::impl
