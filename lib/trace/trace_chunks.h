// A trace file, piece by piece, as docs/trace-format.md describes it: what each kind of chunk says,
// and its bytes. Pure functions: files and threads are the business of trace_writer.h, whole files
// that of trace_reader.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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
// So many fit one chunk, however large their numbers.
inline constexpr std::size_t chunk_events_max = 4096;
inline constexpr std::size_t name_bytes_max = 255;

enum class TraceChunk : std::uint8_t {
  machine = 1,  // the first one, once
  events = 2,
  names = 3,
  drops = 4,
  end = 5,  // the last one, of a program that ended as programs do
};

struct TraceProcessor {
  enum class Kind : std::uint8_t {
    host,
    isolated,  // a device with a page table of its own
  };

  Kind kind = Kind::host;
  bool concurrent = true;      // it and the host may touch managed memory at the same time
  std::uint64_t capacity = 0;  // bytes; 0: no limit
  std::uint32_t workers = 0;   // of devices
  std::vector<std::uint32_t> nodes;

  bool operator==(const TraceProcessor&) const = default;
};

// What ran, and where.
struct TraceMachine {
  std::uint64_t start_ns = 0;       // when recording began, as events count
  std::uint64_t start_unix_ns = 0;  // the same moment since 1970
  std::uint64_t process = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t block_bytes = 0;   // the unit of eviction; blocks of the arena are aligned to it
  std::uint64_t region_bytes = 0;  // what a fault brings along without advice
  std::uint64_t arena_base = 0;
  std::uint64_t arena_bytes = 0;  // of addresses that follow each other
  std::string program;
  std::string trap;
  std::vector<TraceProcessor> processors;  // the host first

  bool operator==(const TraceMachine&) const = default;
};

struct TraceName {
  enum class Kind : std::uint8_t {
    range,   // of memory, until it is freed or named anew
    kernel,  // the launches of this address, at any time
  };

  Kind kind = Kind::range;
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // of a range
  std::string name;

  bool operator==(const TraceName&) const = default;
};

using TraceDrops = std::array<std::uint64_t, event_kinds>;

// Each appends to `file`. The first: what comes before all chunks.
void append_trace_header(TraceBytes& file);
void append_chunk(TraceBytes& file, TraceChunk kind, std::span<const std::byte> payload);
// At most chunk_events_max of them.
void append_events(TraceBytes& file, std::span<const EventRecord> events);
void append_machine(TraceBytes& file, const TraceMachine& machine);
void append_names(TraceBytes& file, std::span<const TraceName> names);
void append_drops(TraceBytes& file, const TraceDrops& drops);
void append_end(TraceBytes& file, std::uint64_t time_ns);

// From the payload of a chunk. Nothing, or false: that is no such payload.
std::optional<TraceMachine> parse_machine(std::span<const std::byte> payload);
std::optional<TraceDrops> parse_drops(std::span<const std::byte> payload);
std::optional<std::uint64_t> parse_end(std::span<const std::byte> payload);
// These two add what they find to what there is. `processors`: how many there are.
bool parse_events(std::span<const std::byte> payload, std::size_t processors,
                  std::vector<EventRecord>& events);
bool parse_names(std::span<const std::byte> payload, std::vector<TraceName>& names);

}  // namespace wherry::impl
