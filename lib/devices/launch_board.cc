#include "devices/launch_board.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "os/process/futex.h"
#include "os/process/spin.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t bit(unsigned slot) {
  return std::uint64_t{1} << slot;
}

// Takes the next piece of the slot. Returns nullopt if other workers have taken all.
std::optional<LaunchPiece> try_take_from(LaunchBoard& board, unsigned slot) {
  LaunchSlot& launch = board.slots[slot];
  // Acquire: pairs with the release of the ticket in try_post(), so the slot's fields are visible.
  std::uint64_t ticket = launch.ticket.load(std::memory_order_acquire);
  std::uint64_t pieces;
  std::uint64_t piece;
  do {
    pieces = ticket >> 32;
    piece = ticket & 0xffff'ffff;
    if (piece >= pieces) return {};
  } while (!launch.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acquire));
  // The bit is cleared before the last piece runs, so before the launch can finish and its slot be
  // reused.
  if (piece + 1 == pieces) {
    // A kernel may have overwritten the level.
    const unsigned level = std::min(launch.level, launch_levels - 1);
    board.ready[level].fetch_and(~bit(slot), std::memory_order_relaxed);
  }

  const std::size_t share = launch.items / pieces;
  const std::size_t rest = launch.items % pieces;
  const std::size_t begin = piece * share + std::min<std::size_t>(piece, rest);
  const std::size_t end = begin + share + (piece < rest ? 1 : 0);
  return LaunchPiece{slot, launch.id, launch.kernel, launch.args, begin, end};
}

}  // namespace

std::optional<DeviceFailure> read_failure(const FailureRecord& record) {
  // Acquire: pairs with the release in end_with_failure().
  if (record.state.load(std::memory_order_acquire) != FailureRecord::State::complete) return {};
  DeviceFailure failure;
  const auto kind = std::bit_cast<unsigned>(record.kind);
  if (kind <= static_cast<unsigned>(DeviceFailure::Kind::lost))
    failure.kind = static_cast<DeviceFailure::Kind>(kind);
  failure.signal = record.signal;
  failure.address = record.address;
  failure.kernel = record.kernel;
  failure.launch_id = record.launch_id;
  // Control characters become spaces, so that the text stays on one line.
  for (const char c : std::string_view(record.what, ::strnlen(record.what, sizeof record.what)))
    failure.what += c >= ' ' || c < 0 ? c : ' ';
  return failure;
}

std::optional<LaunchPiece> try_take_piece(LaunchBoard& board) {
  for (const auto& level : board.ready) {
    for (std::uint64_t ready = level.load(); ready != 0; ready &= ready - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(ready));
      if (const auto piece = try_take_from(board, slot)) return piece;
    }
  }
  return {};
}

namespace {

bool has_ready_pieces(const LaunchBoard& board) {
  return std::ranges::any_of(board.ready, [](const auto& level) { return level.load() != 0; });
}

// The number of pieces that no worker has taken.
int count_ready_pieces(const LaunchBoard& board) {
  std::uint64_t count = 0;
  for (const auto& level : board.ready) {
    for (std::uint64_t ready = level.load(); ready != 0; ready &= ready - 1) {
      const std::uint64_t ticket = board.slots[std::countr_zero(ready)].ticket.load();
      const std::uint64_t taken = ticket & 0xffff'ffff;
      count += (ticket >> 32) - std::min(ticket >> 32, taken);
    }
  }
  return static_cast<int>(std::min<std::uint64_t>(count, std::numeric_limits<int>::max()));
}

// The workers begin with a launch one after the other, this much apart, in groups of this size.
constexpr std::uint64_t turn_ns = 100;
constexpr unsigned turns = 16;

void pause_for(std::uint64_t ns) {
  for (const std::uint64_t end = now_ns() + ns; now_ns() < end;) {
  }
}

// Polls for a piece. Returns nullopt if none came in time.
std::optional<LaunchPiece> poll_for_piece(LaunchBoard& board, unsigned worker) {
  board.pollers.fetch_add(1);
  std::optional<LaunchPiece> piece;
  // A program that launches kernels one after the other launches the next one within this time.
  Spin spin(usual_spin_ns);
  std::uint32_t last_posted = board.posted_to_all.load(std::memory_order_relaxed);
  do {
    if (has_ready_pieces(board)) {
      // If all take pieces at once, they wait for each other's cache line longer than a small
      // launch takes.
      pause_for(worker % turns * turn_ns);
      piece = try_take_piece(board);
    }
    // If faster workers ran all pieces of a small launch, this worker stays awake for the next
    // launch: to wake it takes longer than such a launch.
    const std::uint32_t posted = board.posted_to_all.load(std::memory_order_relaxed);
    if (std::exchange(last_posted, posted) != posted) spin = Spin(usual_spin_ns);
  } while (!piece && spin.goes_on());
  // For each launch, the host wakes one sleeper less for each poller that it sees. But such a
  // poller may have taken a piece of another launch, or none. So the last worker that stops polling
  // wakes sleepers for the pieces that are left. It may wake one too many, because it looks for a
  // piece itself, if it has none, before it sleeps.
  if (board.pollers.fetch_sub(1) == 1 && board.sleepers.load() != 0)
    if (const int left = count_ready_pieces(board); left != 0) futex_wake(board.posted, left);
  return piece;
}

}  // namespace

LaunchPiece take_piece(LaunchBoard& board, unsigned worker) {
  static constinit const std::atomic<bool> never{false};
  return *take_piece(board, worker, never);
}

std::optional<LaunchPiece> take_piece(LaunchBoard& board, unsigned worker,
                                      const std::atomic<bool>& stopping) {
  constexpr int sleep_limit_ms = 1000;
  if (stopping.load()) return {};
  if (const auto piece = try_take_piece(board)) return piece;
  if (const auto piece = poll_for_piece(board, worker)) return piece;
  for (;;) {
    const std::uint32_t posted = board.posted.load();
    if (stopping.load()) return {};
    board.sleepers.fetch_add(1);
    // A launch that is posted after this look changes `posted`, which futex_wait() compares.
    const auto piece = try_take_piece(board);
    if (!piece) futex_wait(board.posted, posted, sleep_limit_ms);
    board.sleepers.fetch_sub(1);
    if (piece) return piece;
  }
}

void stop_workers(LaunchBoard& board, std::atomic<bool>& stopping) {
  stopping.store(true);
  // Changed as by a launch, so that a worker that has not seen `stopping` does not fall asleep.
  board.posted.fetch_add(1);
  futex_wake(board.posted, std::numeric_limits<int>::max());
}

bool finish_piece(LaunchBoard& board, const LaunchPiece& piece) {
  // Release and acquire: the thread that finishes last sees what all others wrote, and publishes
  // it.
  if (board.slots[piece.slot].unfinished.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  board.done.fetch_or(bit(piece.slot), std::memory_order_release);
  return true;
}

bool LaunchPoster::try_post(const LaunchRequest& request) {
  WHERRY_CHECK(request.args_size <= launch_args_limit, "{} bytes", request.args_size);
  const auto pieces = static_cast<std::uint32_t>(std::min<std::size_t>(request.items, workers_));
  {
    const LockGuard guard(lock_);
    if (busy_ == ~std::uint64_t{0}) return false;
    const auto slot = static_cast<unsigned>(std::countr_one(busy_));
    busy_ |= bit(slot);
    ids_[slot] = request.id;
    if (pieces == 0) {
      board_.done.fetch_or(bit(slot));
      return true;
    }
    LaunchSlot& launch = board_.slots[slot];
    launch.id = request.id;
    launch.kernel = request.address;
    launch.items = request.items;
    const auto level = static_cast<unsigned>(request.priority - greatest_priority);
    launch.level = level;
    if (request.args_size != 0) std::memcpy(launch.args, request.args, request.args_size);
    launch.unfinished.store(pieces, std::memory_order_relaxed);
    launch.ticket.store(std::uint64_t{pieces} << 32, std::memory_order_release);
    board_.ready[level].fetch_or(bit(slot));
  }
  if (pieces == workers_) board_.posted_to_all.fetch_add(1, std::memory_order_relaxed);
  // Sequentially consistent, as in take_piece(): either the worker sees the new value, or this
  // thread sees the sleeper. A worker that stops polling looks once more.
  board_.posted.fetch_add(1);
  const std::uint32_t pollers = board_.pollers.load();
  if (pollers < pieces && board_.sleepers.load() != 0)
    futex_wake(board_.posted, static_cast<int>(pieces - pollers));
  return true;
}

std::vector<std::uint64_t> LaunchPoster::take_completed() {
  std::vector<std::uint64_t> ids;
  const LockGuard guard(lock_);
  // Acquire: pairs with finish_piece(), so the caller sees what the kernel wrote.
  std::uint64_t finished = board_.done.exchange(0, std::memory_order_acquire) & busy_;
  busy_ &= ~finished;
  for (; finished != 0; finished &= finished - 1) ids.push_back(ids_[std::countr_zero(finished)]);
  return ids;
}

}  // namespace wherry::impl
