// The parts of a trace file, as docs/trace-format.md describes them: the content of each kind of
// chunk, and its encoding. Pure functions: trace_writer.h has the file and the thread.
// tools/wherry/trace_reader.h reads traces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/event.h"
#include "trace/trace_bytes.h"

namespace wherry::impl {

inline constexpr std::array<char, 8> trace_magic{'W', 'H', 'E', 'R', 'R', 'Y', 'T', 'R'};
inline constexpr std::uint32_t trace_version = 1;
inline constexpr std::size_t trace_header_bytes = trace_magic.size() + 4;
inline constexpr std::size_t chunk_header_bytes = 12;
inline constexpr std::size_t chunk_payload_max = std::size_t{1} << 24;
// So many events fit one chunk, even if their encoding has the largest size.
inline constexpr std::size_t chunk_events_max = 4096;
inline constexpr std::size_t name_bytes_max = 255;

enum class TraceChunk : std::uint8_t {
  machine = 1,  // the first chunk; occurs once
  events = 2,
  names = 3,
  drops = 4,
  end = 5,       // the last chunk, if the program ended normally
  settings = 6,  // the second chunk; traces of earlier versions of the library lack it
};

struct TraceProcessor {
  enum class Kind : std::uint8_t {
    host,
    isolated,  // a device with a page table of its own
    coherent,  // a device that uses the host's page table
  };

  Kind kind = Kind::host;
  bool concurrent = true;  // this processor and the host may access managed memory at the same time
  std::uint64_t capacity = 0;  // bytes; 0: no limit
  std::uint32_t workers = 0;   // of a device
  std::vector<std::uint32_t> nodes;

  bool operator==(const TraceProcessor&) const = default;
};

// The program that ran and the machine it ran on.
struct TraceMachine {
  std::uint64_t start_ns = 0;       // when recording began, on the scale of the events' times
  std::uint64_t start_unix_ns = 0;  // the same time in nanoseconds since 1970
  std::uint64_t process = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t block_bytes = 0;   // the unit of eviction; blocks of the arena are aligned to it
  std::uint64_t region_bytes = 0;  // how much a fault transfers if there is no advice
  std::uint64_t arena_base = 0;
  std::uint64_t arena_bytes = 0;  // the length of the contiguous address range
  std::string program;
  std::string trap;
  std::vector<TraceProcessor> processors;  // the host first

  bool operator==(const TraceMachine&) const = default;
};

struct TraceName {
  enum class Kind : std::uint8_t {
    range,   // of memory, until it is freed or renamed
    kernel,  // all launches of the kernel at this address
    mark,    // the text of all marks with this address
  };

  Kind kind = Kind::range;
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // of a range
  std::string name;

  bool operator==(const TraceName&) const = default;
};

// What the program ran under.
struct TraceSettings {
  // As the user named it, with its parameters; "auto" if the user named none. Empty: no policy
  // decided, because the events are accesses that another tool recorded.
  std::string policy;
  // As `policy`, but with the name of the built-in policy that "auto" stood for.
  std::string policy_in_force;
  std::string version;                   // of the library
  std::string kernel;                    // Linux's release
  std::string cpu;                       // the name of its model; empty: unknown
  std::uint32_t cpus = 0;                // that the process may use
  std::uint32_t nodes = 0;               // NUMA nodes of memory
  std::vector<std::string> environment;  // "NAME=VALUE" of each variable whose name is WHERRY_...

  bool operator==(const TraceSettings&) const = default;
};

// Which fields of an event are present: those that are not 0, and processors that are set.
enum EventField : std::uint8_t {
  has_address = 1,
  has_bytes = 2,
  has_duration = 4,
  has_thread = 8,
  has_ends = 16,
  has_reason = 32,
  has_processors = 64,
  has_value = 128,
};

using TraceDrops = std::array<std::uint64_t, event_kinds>;

// Each function appends to `file`. append_trace_header() writes what precedes the first chunk.
void append_trace_header(TraceBytes& file);
void append_chunk(TraceBytes& file, TraceChunk kind, std::span<const std::byte> payload);
// Whether the first `count` bytes of `encoded` are whole chunks. `encoded` has only whole chunks,
// and perhaps the header before them.
bool are_whole_chunks(std::span<const std::byte> encoded, std::uint64_t count);
// Requires: at most chunk_events_max events.
void append_events(TraceBytes& file, std::span<const TraceEvent> events);
void append_machine(TraceBytes& file, const TraceMachine& machine);
void append_settings(TraceBytes& file, const TraceSettings& settings);
void append_names(TraceBytes& file, std::span<const TraceName> names);
void append_drops(TraceBytes& file, const TraceDrops& drops);
void append_end(TraceBytes& file, std::uint64_t time_ns);

}  // namespace wherry::impl
