// The launch mailbox, in memory shared by the host and one device: the host posts launches, the
// device's workers take pieces of them, and the worker that finishes the last piece of a launch
// marks it done. It also holds the record in which an ending device writes the reason.
//
// A launch is split into min(items, workers) contiguous pieces. Pieces of higher priority are taken
// first; otherwise launches have no order, so the host posts only launches that may run now. The
// host checks everything that it reads here, because a kernel may have overwritten it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "devices/device_process.h"

namespace wherry::impl {

inline constexpr unsigned launch_slots = 64;
// The largest block of arguments: as many parameters, of as many bytes, as CUDA permits.
inline constexpr std::size_t launch_args_limit = 40960;
inline constexpr unsigned launch_levels = least_priority - greatest_priority + 1;

struct LaunchSlot {
  // pieces << 32 | next piece to take. Pieces are taken by compare-and-swap, so a worker that gets
  // a piece knows that the launch is unfinished and that the fields below do not change.
  std::atomic<std::uint64_t> ticket;
  std::atomic<std::uint32_t> unfinished;  // number of pieces
  std::uint64_t id;
  std::uintptr_t kernel;
  std::size_t items;
  unsigned level;  // its priority; level 0 is the greatest
  alignas(64) std::byte args[launch_args_limit];
};

// Why the device ends. The first thread that reports claims the record.
struct FailureRecord {
  enum class State : std::uint32_t {
    empty,
    claimed,  // being written
    complete,
  };
  std::atomic<State> state;
  DeviceFailure::Kind kind;
  int signal;
  std::uintptr_t address;
  std::uintptr_t kernel;
  std::uint64_t launch_id;
  char what[512];  // ends with a zero byte
};

// Begins as all zeros.
struct LaunchBoard {
  // Changes with every launch. Idle workers sleep on it.
  std::atomic<std::uint32_t> posted;
  // Changes with every launch that has a piece for each worker.
  std::atomic<std::uint32_t> posted_to_all;
  // Workers that sleep on `posted`, or are about to.
  std::atomic<std::uint32_t> sleepers;
  // Workers that poll for a piece.
  std::atomic<std::uint32_t> pollers;
  // For each level; bit s set: slot s has pieces that no worker has taken.
  alignas(64) std::atomic<std::uint64_t> ready[launch_levels];
  // Bit s set: the launch in slot s is finished. The host clears it.
  alignas(64) std::atomic<std::uint64_t> done;
  alignas(64) FailureRecord failure;
  alignas(64) LaunchSlot slots[launch_slots];
};

// Called by the host. Returns the failure if the record is complete. Values out of range are
// replaced, because a kernel may have overwritten the record.
std::optional<DeviceFailure> read_failure(const FailureRecord& record);

// A piece of a launch, as a worker runs it.
struct LaunchPiece {
  unsigned slot = 0;
  std::uint64_t launch_id = 0;
  std::uintptr_t kernel = 0;
  const void* args = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Called by any thread of the device. Returns nullopt if no piece is ready.
std::optional<LaunchPiece> try_take_piece(LaunchBoard& board);
// Waits until there is a piece: polls for a moment, then sleeps. `worker`: the number of the
// calling worker.
LaunchPiece take_piece(LaunchBoard& board, unsigned worker);
// Waits for a piece, but returns nullopt once `stopping` is true: for workers that end before their
// process.
std::optional<LaunchPiece> take_piece(LaunchBoard& board, unsigned worker,
                                      const std::atomic<bool>& stopping);
// Sets `stopping` and wakes the workers that sleep in take_piece().
void stop_workers(LaunchBoard& board, std::atomic<bool>& stopping);
// Ends a piece. Returns true if it was the launch's last; then the caller notifies the host.
[[nodiscard]] bool finish_piece(LaunchBoard& board, const LaunchPiece& piece);

// The host's side. Any thread may call; no other lock is taken under lock_.
class LaunchPoster {
 public:
  LaunchPoster(LaunchBoard& board, int workers)
      : board_(board), workers_(static_cast<std::uint32_t>(workers)) {}

  // Returns false if all slots are taken. A launch of no items is done at once. Requires: args_size
  // <= launch_args_limit, and a priority from least_priority to greatest_priority.
  [[nodiscard]] bool try_post(const LaunchRequest& request) EXCLUDES(lock_);
  std::vector<std::uint64_t> take_completed() EXCLUDES(lock_);
  bool has_completed() const { return board_.done.load(std::memory_order_relaxed) != 0; }

 private:
  LaunchBoard& board_;
  const std::uint32_t workers_;
  Mutex lock_{LockOrder::launch_board};
  std::uint64_t busy_ GUARDED_BY(lock_) = 0;                // bit s set: slot s holds a launch
  std::uint64_t ids_[launch_slots] GUARDED_BY(lock_) = {};  // of the launches in the busy slots
};

}  // namespace wherry::impl
