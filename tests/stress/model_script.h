// Random programs for the whole API: the settings of a process, and the operations that its host
// threads ("lanes") execute. A case is drawn from a seed, or read from text that a failing run
// printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wherry::test {

inline constexpr int model_devices = 3;
inline constexpr unsigned model_lanes_max = 3;
inline constexpr unsigned shared_slots = 3;   // all lanes use them; the last one holds counters
inline constexpr unsigned private_slots = 6;  // of each lane
inline constexpr unsigned slots_max = shared_slots + model_lanes_max * private_slots;
inline constexpr unsigned counter_slot = shared_slots - 1;
inline constexpr unsigned streams_per_device = 3;  // legacy default, non-blocking, blocking

// What an operation does. The last group runs in lane 0 only: all lanes wait for each other before
// and after such an operation.
enum class OperationKind : unsigned {
  allocate,  // slot: `variant` chooses the memory, `count` its pages
  free,
  write,  // `count` bytes from `first`, by the device in the stream, or by the host
  read,
  increment,  // read and write
  count_up,   // adds to counters that all lanes use
  copy,       // from the slot to the other slot
  fill,
  advise,
  query,  // reads attributes, and where the first page is
  prefetch,
  discard,  // discards, and writes again
  pin,
  unpin,
  touch,  // wherryTouchPages
  host_function,
  system_calls,  // copies from the slot through a pipe to the other slot
  synchronize,
  renew_stream,
  fork,
  meet,  // compares all memory with the model
  allocate_shared,
  free_shared,
  fail_device,  // a kernel fails, then the device is reset
};
inline constexpr OperationKind last_of_lanes = OperationKind::fork;
inline constexpr OperationKind last_operation = OperationKind::fail_device;

inline bool is_meeting(OperationKind kind) {
  return kind > last_of_lanes;
}

// Every combination of numbers is a valid operation: numbers that are too large wrap around, and an
// operation on a slot without memory does nothing. So each subset of a script is a script.
struct Operation {
  OperationKind kind = OperationKind::read;
  unsigned lane = 0;
  unsigned slot = 0;
  unsigned other = 0;    // a copy's destination
  unsigned first = 0;    // an offset in the lane's bytes of the slot
  unsigned at = 0;       // an offset in the other slot
  unsigned count = 0;    // bytes; pages of an allocation
  int device = -1;       // -1: the host
  unsigned stream = 0;   // of the device
  unsigned variant = 0;  // random bits: which function, which advice, how work is ordered
};
using Script = std::vector<Operation>;

// The environment of the process.
struct Settings {
  unsigned lanes = 2;
  bool peers = false;      // every device may access the others' own memory
  unsigned stripe = 64;    // bytes of a shared slot that belong to one lane, before the next lane's
  std::string devices;     // WHERRY_DEVICES
  std::string policy;      // WHERRY_POLICY
  std::string region;      // WHERRY_FAULT_REGION
  std::string huge_pages;  // WHERRY_HUGE_PAGES
  std::string host;        // WHERRY_HOST_CAPACITY, or "-"
  std::string copiers;     // WHERRY_COPIERS
};

struct Case {
  std::uint64_t seed = 0;
  Settings settings;
  Script script;
};

Case draw_case(std::uint64_t seed, std::size_t operations);

std::string text_of(const Operation& operation);
// The text that case_from() reads.
std::string text_of(const Case& drawn);
// Throws std::runtime_error if the text is not a case.
Case case_from(const std::string& text);

}  // namespace wherry::test
