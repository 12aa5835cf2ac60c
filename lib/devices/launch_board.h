// Launches in memory that the host and one device share: the host posts, the device's workers take
// pieces, the worker that finishes the last piece of a launch marks it done. Also the place where
// a dying device says why.
//
// A launch is split in min(items, workers) contiguous pieces. Pieces of higher priority are taken
// first; there is no other order between launches: the host posts only what may run now. The host
// believes nothing it reads here: a kernel may have overwritten it.
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
inline constexpr std::size_t launch_args_limit = 4096;
inline constexpr unsigned launch_levels = least_priority - greatest_priority + 1;

struct LaunchSlot {
  // pieces << 32 | next piece to take; taken with compare-and-swap, so whoever gets a piece knows
  // that the launch is unfinished and the fields below hold still.
  std::atomic<std::uint64_t> ticket;
  std::atomic<std::uint32_t> unfinished;  // pieces
  std::uint64_t id;
  std::uintptr_t kernel;
  std::size_t items;
  unsigned level;  // of its priority, the greatest first
  alignas(64) std::byte args[launch_args_limit];
};

// Why the device ends. The first thread that has something to say claims it.
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

// All zero when it is new.
struct LaunchBoard {
  std::atomic<std::uint32_t> posted;    // changes with every launch; idle workers sleep on it
  std::atomic<std::uint32_t> sleepers;  // about to sleep on it, or asleep
  // By level; bit s: slot s has pieces that nobody has taken.
  alignas(64) std::atomic<std::uint64_t> ready[launch_levels];
  alignas(64) std::atomic<std::uint64_t> done;  // bit s: slot s is finished; the host takes it
  alignas(64) FailureRecord failure;
  alignas(64) LaunchSlot slots[launch_slots];
};

// The host's side: what the record says, if it is complete. A kernel may have written anything
// there.
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

// The device's side. Any of its threads.
std::optional<LaunchPiece> try_take_piece(LaunchBoard& board);
// Waits until there is one: looks for a moment, then sleeps.
LaunchPiece take_piece(LaunchBoard& board);
// True when it was the last piece of its launch: the caller tells the host.
[[nodiscard]] bool finish_piece(LaunchBoard& board, const LaunchPiece& piece);

// The host's side. Any thread; its lock is a leaf.
class LaunchPoster {
 public:
  LaunchPoster(LaunchBoard& board, int workers)
      : board_(board), workers_(static_cast<std::uint32_t>(workers)) {}

  // False when all slots are taken. A launch of no items is done at once.
  // Requires: args_size <= launch_args_limit, and a priority from the least to the greatest.
  [[nodiscard]] bool try_post(const LaunchRequest& request) EXCLUDES(lock_);
  std::vector<std::uint64_t> take_completed() EXCLUDES(lock_);

 private:
  LaunchBoard& board_;
  const std::uint32_t workers_;
  Mutex lock_{LockOrder::launch_board};
  std::uint64_t busy_ GUARDED_BY(lock_) = 0;                // bit s: slot s holds a launch
  std::uint64_t ids_[launch_slots] GUARDED_BY(lock_) = {};  // of those
};

}  // namespace wherry::impl
