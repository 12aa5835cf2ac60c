// The layout of the memory in which a process shows its counters to other processes: the library
// writes it (memory/status_board.h), `wherry top` reads it. Both run on the same machine. A reader
// that finds another format than its own shows nothing.
//
// The library itself counts in this memory; there is no second set of processors' counters.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/processor.h"
#include "memory/counters.h"

namespace wherry::impl {

// The name of the memory's file, as links in /proc/PID/fd show it behind "/memfd:".
inline constexpr const char* status_name = "wherry-status";
inline constexpr std::uint64_t status_mark = 0x3173'7574'6174'7377;  // "wstatus1"
// To be raised with every change of the structs below, or of the lists of counters.
inline constexpr std::uint32_t status_format = 2;

// How many names are shown; further ones are only counted.
inline constexpr std::size_t shown_names_max = 1024;
inline constexpr std::size_t shown_name_bytes = 256;  // with the zero byte at its end
inline constexpr std::uint64_t not_in_arena = UINT64_MAX;

// What a processor has and does.
struct ProcessorStatus {
  alignas(64) Counters counters;
  alignas(64) std::atomic<std::uint64_t> reserved_pages{0};  // of its pool
};

// What happened in a block of 2 MiB; relaxed, like the counters.
struct BlockActivity {
  std::atomic<std::uint64_t> faults{0};
  std::atomic<std::uint64_t> arrived{0};  // pages that came to a pool, as moves or copies
  std::atomic<std::uint64_t> evicted{0};  // pages that were evicted
  std::uint64_t unused = 0;               // so that no block lies in two cache lines
};

// Memory that the program has named.
struct ShownName {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;   // 0: the slot is free
  std::uint64_t offset = 0;  // of the first byte, from the arena's base; not_in_arena: elsewhere
  std::array<char, shown_name_bytes> text{};
};

enum class ShownKind : std::uint32_t {
  host,
  isolated,
  coherent
};

// What does not change about a processor.
struct ShownProcessor {
  ShownKind kind = ShownKind::host;
  std::int32_t node = 0;             // NUMA node; of the host the first of several
  std::uint64_t capacity_bytes = 0;  // of its pool; 0: no limit
};

struct StatusHeader {
  // Becomes status_mark when the other fields are valid (release).
  std::atomic<std::uint64_t> mark{0};
  std::uint32_t format = status_format;
  std::uint32_t processors = 0;
  std::uint64_t start_ns = 0;  // when the library started (CLOCK_MONOTONIC)
  std::uint64_t arena_base = 0;
  std::uint64_t blocks = 0;  // of the arena
  // The first of the arena's blocks for variables, whose addresses are outside the arena.
  std::uint64_t variables_from = 0;
  std::array<char, 32> version{};
  std::array<char, 32> trap{};
  std::array<char, 256> policy{};           // as the user named it
  std::array<char, 256> policy_in_force{};  // what that means on this machine
  std::array<ShownProcessor, max_processors> about{};

  // Odd while a name is changed.
  std::atomic<std::uint64_t> name_changes{0};
  std::atomic<std::uint64_t> name_slots{0};      // slots from here on have never been used
  std::atomic<std::uint64_t> names_left_out{0};  // for which there was no slot
};

struct StatusMemory {
  StatusHeader header;
  std::array<ProcessorStatus, max_processors> processors;
  std::array<ShownName, shown_names_max> names;
  // BlockActivity of each block of the arena follows.
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(StatusMemory) % alignof(BlockActivity) == 0 && sizeof(BlockActivity) == 32);

constexpr std::size_t status_bytes(std::uint64_t blocks) {
  return sizeof(StatusMemory) + blocks * sizeof(BlockActivity);
}

}  // namespace wherry::impl
